//! Installing a server by the system's package manager.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::Uid;

use crate::Error;

/// Package manager, what it is told, and whether that needs root.
const MANAGERS: [(&str, &str, bool); 7] = [
    ("apt-get", "apt-get update && apt-get install -y postgresql", true),
    ("dnf", "dnf install -y postgresql-server", true),
    ("yum", "yum install -y postgresql-server", true),
    ("zypper", "zypper --non-interactive install postgresql-server", true),
    ("pacman", "pacman -Sy --noconfirm postgresql", true),
    ("apk", "apk add postgresql", true),
    ("brew", "brew install postgresql@17", false),
];

/// Installs a Postgres server with the system's package manager, without asking anything.
///
/// # Errors
/// [`Error::NotInstallable`], with the one command to run, when there is no known package manager or it needs root and
/// this process is not; [`Error::Failed`] with the end of the output when it fails.
pub fn install_postgres() -> Result<(), Error> {
    let not_installable = |reason: &str| Error::NotInstallable { reason: reason.to_owned(), command: command_text() };
    let (_, script, needs_root) = manager().ok_or_else(|| not_installable("no known package manager"))?;
    if needs_root && !Uid::effective().is_root() {
        return Err(not_installable("it needs root"));
    }
    log::info!("installing Postgres: {script}");
    let output = Command::new("/bin/sh")
        .args(["-c", script])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(Error::io("run", Path::new("/bin/sh")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Error::Failed { program: script.to_owned(), output: tail(&String::from_utf8_lossy(&said)).to_owned() })
}

/// The one command that installs a server here, for a person to type.
pub(crate) fn command_text() -> String {
    match manager() {
        Some((_, script, true)) if !Uid::effective().is_root() => format!("sudo sh -c '{script}'"),
        Some((_, script, _)) => script.to_owned(),
        None => "see https://www.postgresql.org/download/".to_owned(),
    }
}

/// The end of a program's output: where the reason of a failure stands.
pub(crate) fn tail(output: &str) -> &str {
    const BYTES_MAX: usize = 2_000;
    let output = output.trim();
    let start = output.len().saturating_sub(BYTES_MAX);
    let start = (start..output.len()).find(|&at| output.is_char_boundary(at)).unwrap_or(0);
    &output[start..]
}

fn manager() -> Option<(&'static str, &'static str, bool)> {
    let path = env::var_os("PATH").unwrap_or_default();
    MANAGERS.into_iter().find(|(program, ..)| env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuous_integration_installs_like_the_product() {
        let script = include_str!("../../../.ci/run");
        assert!(script.contains(MANAGERS[0].1), ".ci/run must install Postgres by the same command");
    }

    #[test]
    fn the_tail_is_the_end() {
        assert_eq!(tail("short\n"), "short");
        let long = format!("{}end", "é".repeat(5_000));
        assert!(tail(&long).ends_with("end") && tail(&long).len() <= 2_000);
    }
}
