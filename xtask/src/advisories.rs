//! No dependency has a known hole: `cargo deny` holds them against a database of advisories that is on this machine. Where there is none
//! nothing is checked, and nothing is fetched.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::{cargo_command, done};

/// # Errors
/// When an advisory is about one of the dependencies, or `cargo deny` cannot read the database.
pub fn check() -> anyhow::Result<()> {
    let folder = folder(env::var_os("CARGO_HOME").map(PathBuf::from), env::home_dir());
    let version = cargo_command().args(["deny", "--version"]).stderr(Stdio::null()).stdout(Stdio::null()).status();
    let is_installed = version.is_ok_and(|status| status.success());
    if let Some(reason) = reason_to_skip(folder.as_deref(), is_installed) {
        println!("  skipped: {reason}");
        return Ok(());
    }
    done(cargo_command().args(["deny", "--offline", "check", "advisories"]))
}

/// Where `cargo deny` keeps its databases; one may be put there by hand.
fn folder(cargo_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let cargo_home = cargo_home.or_else(|| home.map(|home| home.join(".cargo")));
    cargo_home.map(|cargo_home| cargo_home.join("advisory-dbs"))
}

fn reason_to_skip(folder: Option<&Path>, is_installed: bool) -> Option<String> {
    let Some(folder) = folder else { return Some("there is no home folder".to_owned()) };
    if !folder.is_dir() {
        return Some(format!("no database of advisories in {}", folder.display()));
    }
    (!is_installed).then(|| format!("there is a database in {}, and no cargo-deny to read it", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository;

    #[test]
    fn is_skipped_only_for_a_reason() {
        let present = repository();
        let absent = present.join("absent");
        #[rustfmt::skip]
        let cases = [
            // database,             installed, reason,                     why
            (Some(present.as_path()), true,     None,                       "all that it takes"),
            (Some(present.as_path()), false,    Some("no cargo-deny"),      "nothing to read it with"),
            (Some(absent.as_path()),  true,     Some("no database"),        "nothing to read"),
            (None,                    true,     Some("no home folder"),     "nowhere to look"),
        ];
        for (folder, is_installed, expected, why) in cases {
            let reason = reason_to_skip(folder, is_installed);
            assert_eq!(reason.is_none(), expected.is_none(), "{why}: {reason:?}");
            assert!(reason.unwrap_or_default().contains(expected.unwrap_or_default()), "{why}");
        }
        let (configured, home) = (Some(PathBuf::from("/own")), Some(PathBuf::from("/home/me")));
        assert_eq!(folder(configured, home.clone()), Some(PathBuf::from("/own/advisory-dbs")));
        assert_eq!(folder(None, home), Some(PathBuf::from("/home/me/.cargo/advisory-dbs")));
    }
}
