//! Everything that can go wrong, in words that say what to do next.

use std::io;
use std::path::{Path, PathBuf};

/// Why a private Postgres could not be found, made, started, asked or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No server binaries of a usable version.
    #[error("no Postgres server to run: {wanted} was not found in {looked}; to install it: {command}")]
    NotInstalled {
        /// What would have been good enough.
        wanted: String,
        /// Every folder that was looked at.
        looked: String,
        /// The one command that installs it.
        command: String,
    },
    /// The package manager could not be used by this process.
    #[error("Postgres cannot be installed from here ({reason}); run: {command}")]
    NotInstallable {
        /// Why not.
        reason: String,
        /// The one command that installs it.
        command: String,
    },
    /// Root, on a system that has nobody else to run a server as.
    #[error("Postgres refuses to run as root, and there is neither an account `postgres` nor `nobody` to run it as")]
    NoAccount,
    /// The account of the server may not enter a folder on the way to its data.
    #[error("account `{account}`, which runs Postgres, cannot enter {folder}; choose another data folder")]
    NotEnterable {
        /// The account.
        account: String,
        /// The first folder that it cannot enter.
        folder: PathBuf,
    },
    /// Another process has this data folder.
    #[error("{folder} is in use by process {pid}; stop that one first, or choose another data folder")]
    InUse {
        /// The data folder.
        folder: PathBuf,
        /// The process, as it wrote itself down.
        pid: String,
    },
    /// There are files where the cluster should be, and they are no cluster.
    #[error("{folder} is not a Postgres cluster, and not empty; move it away, or choose another data folder")]
    NotACluster {
        /// The folder.
        folder: PathBuf,
    },
    /// There is no cluster where one should be.
    #[error("{folder} has no Postgres cluster")]
    NoCluster {
        /// The data folder.
        folder: PathBuf,
    },
    /// A program ended with an error; `output` is the end of what it said.
    #[error("{program} failed: {output}")]
    Failed {
        /// What was run.
        program: String,
        /// The end of its output.
        output: String,
    },
    /// A server that neither became ready nor gave up.
    #[error("Postgres (process {pid}) was not ready after {seconds} s; its log is {log}")]
    NotReady {
        /// The server's process.
        pid: u32,
        /// How long it was given.
        seconds: u64,
        /// Its log file.
        log: PathBuf,
    },
    /// A server that was told to stop and is still busy; it stops by itself once it is done.
    #[error("Postgres (process {pid}) is still shutting down after {seconds} s")]
    NotStopped {
        /// The server's process.
        pid: u32,
        /// How long it was given.
        seconds: u64,
    },
    /// The server refused a statement.
    #[error("Postgres refused `{statement}`: {message} (SQLSTATE {code})")]
    Refused {
        /// What was asked.
        statement: String,
        /// Why not.
        message: String,
        /// The five characters of SQLSTATE, empty when the connection itself broke.
        code: String,
    },
    /// The template database of the tests could not be prepared.
    #[error("the template database could not be prepared: {0}")]
    Unprepared(String),
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: an I/O error together with what was being done to which file.
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + use<'a> {
        move |source| Error::Io { action, path: path.to_owned(), source }
    }
}
