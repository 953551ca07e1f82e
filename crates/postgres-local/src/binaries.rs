//! Where installed Postgres servers are, and which one is taken.

use std::cmp::Reverse;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, install};

/// The oldest release that its makers still support.
const MAJOR_MIN: u32 = 14;

/// The program folders of one installed server.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    folder: PathBuf,
    /// As the server tells it, for example `15.20`.
    pub version: String,
    pub major: u32,
}

impl Binaries {
    /// The server to make a new cluster with.
    pub fn newest() -> Result<Self, Error> {
        Self::find(|found| found.major >= MAJOR_MIN, &format!("version {MAJOR_MIN} or newer"))
    }

    /// The server for an existing cluster: a cluster can be read by the major version that made it, and by no other.
    pub fn of_major(major: u32) -> Result<Self, Error> {
        Self::find(|found| found.major == major, &format!("version {major}, which made this data folder,"))
    }

    pub fn postgres(&self) -> PathBuf {
        self.folder.join("postgres")
    }

    pub fn initdb(&self) -> PathBuf {
        self.folder.join("initdb")
    }

    fn find(fits: impl Fn(&Self) -> bool, wanted: &str) -> Result<Self, Error> {
        let mut looked = Vec::new();
        let mut look = |folder: PathBuf| {
            looked.push(folder.display().to_string());
            Self::in_folder(&folder).filter(&fits)
        };
        let found = candidate_folders().into_iter().find_map(&mut look);
        // Last, because a client library alone brings a pg_config that points to a folder without a server.
        found.or_else(|| pg_config_folder().and_then(look)).ok_or_else(|| Error::NotInstalled {
            wanted: wanted.to_owned(),
            looked: looked.join(", "),
            command: install::command_text(),
        })
    }

    fn in_folder(folder: &Path) -> Option<Self> {
        if !folder.join("initdb").is_file() {
            return None;
        }
        let output = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
        let (version, major) = parse_version(&String::from_utf8(output.stdout).ok()?)?;
        Some(Self { folder: folder.to_owned(), version, major })
    }
}

/// `postgres (PostgreSQL) 15.20 (Debian ..)` is `15.20` and 15; a beta is `18beta1` and 18.
fn parse_version(text: &str) -> Option<(String, u32)> {
    let version = text.split_once("(PostgreSQL) ")?.1.split_whitespace().next()?;
    let digits = version.find(|c: char| !c.is_ascii_digit()).map_or(version, |end| &version[..end]);
    Some((version.to_owned(), digits.parse().ok()?))
}

/// `$PG_BINDIR` alone when set: whoever names a folder wants that one or an error.
fn candidate_folders() -> Vec<PathBuf> {
    if let Some(folder) = env::var_os("PG_BINDIR") {
        return vec![folder.into()];
    }
    let mut folders: Vec<PathBuf> = [
        "/usr/lib/postgresql/*/bin",
        "/usr/pgsql-*/bin",
        "/usr/libexec/postgresql*",
        "/opt/homebrew/opt/postgresql@*/bin",
        "/usr/local/opt/postgresql@*/bin",
        "/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
        "/Applications/Postgres.app/Contents/Versions/*/bin",
    ]
    .iter()
    .flat_map(|pattern| expand(pattern))
    .collect();
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let mut seen = std::collections::BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    folders
}

/// The folders that match a pattern with one `*`, highest version number first; the pattern itself when none does, so
/// that an error message can show it.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
    let (parent, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let rest = after.trim_start_matches('/');
    let names = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = names
        .filter_map(|entry| Some((version_after(prefix, entry.file_name().to_str()?)?, entry.path().join(rest))))
        .filter(|(_, folder)| folder.is_dir())
        .collect();
    found.sort_by_key(|(version, _)| Reverse(*version));
    if found.is_empty() { vec![pattern.into()] } else { found.into_iter().map(|(_, folder)| folder).collect() }
}

/// The number that follows `prefix` in a folder's name: 15 in `pgsql-15`, 9 in `9.6`, 0 in `latest`.
fn version_after(prefix: &str, name: &str) -> Option<u32> {
    let digits: String = name.strip_prefix(prefix)?.chars().take_while(char::is_ascii_digit).collect();
    Some(digits.parse().unwrap_or(0))
}

fn pg_config_folder() -> Option<PathBuf> {
    if env::var_os("PG_BINDIR").is_some() {
        return None;
    }
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(folder.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_versions() {
        #[rustfmt::skip]
        let cases = [
            // output,                                                  version,   major, why
            ("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n", "15.20",   15,    "a packager's suffix is not the version"),
            ("postgres (PostgreSQL) 18beta1\n",                        "18beta1", 18,    "a beta belongs to its major version"),
            ("postgres (PostgreSQL) 17.2\n",                           "17.2",    17,    "the plain form"),
        ];
        for (output, version, major, why) in cases {
            assert_eq!(parse_version(output), Some((version.to_owned(), major)), "{why}");
        }
        assert_eq!(parse_version("something else"), None);
    }

    #[test]
    fn takes_the_highest_number_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["pg-9", "pg-17", "pg-15", "other-99"] {
            fs::create_dir_all(folder.path().join(name).join("bin")).unwrap();
        }
        let pattern = format!("{}/pg-*/bin", folder.path().display());
        let names: Vec<_> =
            expand(&pattern).iter().map(|found| found.strip_prefix(folder.path()).unwrap().to_owned()).collect();
        assert_eq!(names, ["pg-17/bin", "pg-15/bin", "pg-9/bin"].map(PathBuf::from));
        assert_eq!(expand("/nowhere/*/bin"), [PathBuf::from("/nowhere/*/bin")], "an error message needs the pattern");
    }
}
