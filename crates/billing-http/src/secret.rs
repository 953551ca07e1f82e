//! Secrets from the environment and from files. Never from flags: everybody on the machine can read those.

use std::env::{self, VarError};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A secret out of `file`, otherwise out of the environment variable `name`; an empty variable is none.
///
/// # Errors
/// When the file cannot be read or has nothing in it, or the variable is not text.
pub fn secret(file: Option<&Path>, name: &str) -> anyhow::Result<Option<String>> {
    let Some(file) = file else {
        return match env::var(name) {
            Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
            Err(VarError::NotPresent) => Ok(None),
            Err(error) => Err(error).with_context(|| name.to_owned()),
        };
    };
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    match text.trim() {
        "" => bail!("{} has nothing in it", file.display()),
        text => Ok(Some(text.to_owned())),
    }
}

/// A file with a secret in it, of a flag; an empty variable behind the flag is none.
pub fn file_named(path: Option<&PathBuf>) -> Option<&Path> {
    path.map(PathBuf::as_path).filter(|path| !path.as_os_str().is_empty())
}

/// Whether there is a password in a connection string, as a URL or as `key=value` pairs.
pub fn has_password(text: &str) -> bool {
    let after_scheme = ["postgresql://", "postgres://"].into_iter().find_map(|scheme| text.strip_prefix(scheme));
    let user = after_scheme.and_then(|rest| {
        let authority = rest.split(['/', '?']).next()?;
        authority.rsplit_once('@').map(|(user, _)| user)
    });
    let is_with_user = user.and_then(|user| user.split_once(':')).is_some_and(|(_, password)| !password.is_empty());
    // `sslpassword` too.
    let is_parameter = text.match_indices("password").any(|(at, name)| {
        let rest = text[at + name.len()..].trim_start();
        rest.strip_prefix('=').is_some_and(|value| !value.trim_start().is_empty())
    });
    is_with_user || is_parameter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_found_wherever_it_stands() {
        #[rustfmt::skip]
        let cases = [
            // connection string,                                           password, why
            ("postgresql://localhost/billing",                              false,    "none"),
            ("postgresql:///billing?host=/run/postgresql&user=billing",     false,    "a socket"),
            ("postgres://billing@db:5432/billing",                          false,    "a user, and a port"),
            ("postgres://billing:@db/billing",                              false,    "an empty one"),
            ("postgresql://[::1]:5432/billing?passfile=/etc/pass",          false,    "in a file"),
            ("host=db user=billing dbname=billing",                         false,    "pairs"),
            ("postgresql://billing:secret@db/billing",                      true,     "behind the user"),
            ("postgres://billing:se@cret@db",                               true,     "with an odd character in it"),
            ("postgresql://db/billing?user=billing&password=secret",        true,     "a parameter"),
            ("postgresql://db/billing?sslpassword=secret",                  true,     "that of a key"),
            ("host=db password = 'secret'",                                 true,     "a pair"),
        ];
        for (text, expected, why) in cases {
            assert_eq!(has_password(text), expected, "{text}: {why}");
        }
    }

    #[test]
    fn a_file_goes_before_the_variable() {
        let folder = tempfile::tempdir().expect("a folder");
        let (full, empty) = (folder.path().join("full"), folder.path().join("empty"));
        fs::write(&full, " secret\n").expect("written");
        fs::write(&empty, "\n").expect("written");
        // A variable that every process has, and one that none has.
        let (present, absent) = ("PATH", "BILLING_NO_SUCH_VARIABLE");
        assert_eq!(secret(Some(&full), present).expect("a secret").as_deref(), Some("secret"));
        assert_eq!(secret(None, present).expect("a secret"), env::var(present).ok());
        assert_eq!(secret(None, absent).expect("none"), None);
        for (path, told) in [(empty, "nothing in it"), (folder.path().join("none"), "cannot read")] {
            let error = format!("{:#}", secret(Some(&path), present).expect_err(told));
            assert!(error.contains(told), "{error}");
        }
    }
}
