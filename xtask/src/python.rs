//! Programs of the Python package index that a chore needs, each chore's in an environment of its own.

use std::path::PathBuf;
use std::process::Command;

use crate::{done, target_folder};

/// A Python environment below the build's output.
pub struct Environment {
    pub folder: PathBuf,
}

impl Environment {
    /// The environment `name` with `packages` in it; installing what is there already takes a second.
    pub fn install(name: &str, packages: &[&str]) -> anyhow::Result<Self> {
        let environment = Self { folder: target_folder().join(name) };
        if !environment.folder.join("bin/pip").exists() {
            done(Command::new("python3").args(["-m", "venv"]).arg(&environment.folder))?;
        }
        done(environment.program("pip").args(["install", "--quiet"]).args(packages))?;
        Ok(environment)
    }

    /// A program of the environment, to be given arguments and run.
    pub fn program(&self, name: &str) -> Command {
        Command::new(self.folder.join("bin").join(name))
    }
}
