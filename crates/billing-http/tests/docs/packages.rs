//! Packages of others that tests run: installed once for each build folder, or said to be missing, which CI does not accept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a program that must end well, and gives what it printed.
pub fn printed(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(out) } else { Err(format!("{out}\n{}", String::from_utf8_lossy(&output.stderr))) }
}

/// A folder with packages that `install` has put there; `None`, and it is said, when that is impossible here.
#[expect(clippy::print_stderr, reason = "a test that is skipped must be seen")]
pub fn installed(name: &str, install: impl Fn(&Path) -> Result<String, String>) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let made = || {
        let fresh = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|error| error.to_string())?;
        install(fresh.path())?;
        match fs::rename(fresh.path(), &folder) {
            // Another process may have been faster; then its folder is as good.
            Err(error) if !folder.exists() => Err(error.to_string()),
            _ => Ok(()),
        }
    };
    if !folder.exists()
        && let Err(reason) = made()
    {
        let is_ci = std::env::var_os("CI").is_some();
        assert!(!is_ci, "CI must be able to install {name}: {reason}");
        eprintln!("SKIPPED: {name} could not be installed: {reason}");
        return None;
    }
    Some(folder)
}

/// A folder with packages for Python, as `PYTHONPATH` names it.
pub fn installed_by_pip(name: &str, packages: &[&str]) -> Option<PathBuf> {
    installed(name, |folder| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(folder);
        printed(pip.args(packages))
    })
}

/// A folder with packages for JavaScript, where modules find them.
pub fn installed_by_npm(name: &str, packages: &[&str]) -> Option<PathBuf> {
    installed(name, |folder| {
        fs::write(folder.join("package.json"), r#"{"type": "module", "private": true}"#).map_err(|e| e.to_string())?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund"]).args(packages).current_dir(folder);
        printed(&mut npm)
    })
}
