//! The life of a cluster: made, started, asked for databases, stopped.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::{Uid, User};

use crate::account::Account;
use crate::binaries::Binaries;
use crate::install::tail;
use crate::lock::FolderLock;
use crate::run_folder::{RunFolder, is_fit_for_socket};
use crate::server::{Launch, Server, rotate_log};
use crate::watch::{RETRIES_MS, Watch};
use crate::{Error, pid_file, settings, wire};

/// Inside a data folder: the cluster, and the beginnings of clusters whose making was cut short.
const CLUSTER: &str = "cluster";
const UNFINISHED_PREFIX: &str = "cluster.new-";

/// Recovery after a power cut replays up to a few gigabytes.
const PERSISTENT_PATIENCE: Duration = Duration::from_secs(15 * 60);
const TEMPORARY_PATIENCE: Duration = Duration::from_secs(60);

/// A running server with its data; stops on drop, and by itself when this process dies in whatever way.
///
/// A supervisor that signals every process of a service at once (systemd's default) should be told to signal the
/// application only (`KillMode=mixed`): Postgres takes the same signal as "no new connections".
#[derive(Debug)]
pub struct Cluster {
    // In the order of dropping: the server ends before its folder goes, and the data folder is free last.
    watch: Option<Watch>,
    /// `None` while it is watched.
    server: Option<Server>,
    launch: Launch,
    #[expect(dead_code, reason = "removed on drop")]
    run_folder: Option<RunFolder>,
    #[expect(dead_code, reason = "released on drop")]
    lock: Option<FolderLock>,
}

impl Cluster {
    /// Starts the cluster that keeps its data in `data_dir`, initialising it first when needed. Durable: what is
    /// committed survives a power cut. The folder may hold other files of the application.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], [`Error::InUse`] when another process has the folder, [`Error::NotEnterable`] when the
    /// server's account cannot get there, [`Error::Failed`] when Postgres gives up.
    pub fn persistent(data_dir: &Path) -> Result<Self, Error> {
        let data_dir = create_data_dir(data_dir)?;
        let lock = FolderLock::acquire(&data_dir)?;
        let cluster = data_dir.join(CLUSTER);
        let account = if cluster.exists() { Account::owning(&cluster)? } else { Account::for_server()? };
        account.open_way_to(&data_dir)?;
        let binaries = match major_version_of(&cluster)? {
            Some(major) => Binaries::of_major(major)?,
            None => initialise_persistent(&data_dir, &account)?,
        };
        Self::start_persistent(&data_dir, binaries, account, lock)
    }

    /// As [`Cluster::persistent`], of a cluster that is there: nothing is created.
    ///
    /// # Errors
    /// [`Error::NoCluster`], and those of [`Cluster::persistent`].
    pub fn existing(data_dir: &Path) -> Result<Self, Error> {
        if !is_cluster(&data_dir.join(CLUSTER)) {
            return Err(Error::NoCluster { folder: data_dir.to_owned() });
        }
        Self::persistent(data_dir)
    }

    fn start_persistent(
        data_dir: &Path,
        binaries: Binaries,
        account: Account,
        lock: FolderLock,
    ) -> Result<Self, Error> {
        let cluster = data_dir.join(CLUSTER);
        pid_file::settle(&cluster, Signal::SIGINT)?;
        let (socket_folder, run_folder) = socket_folder(data_dir, &account)?;
        let launch = Launch {
            binaries,
            account,
            cluster,
            log: rotate_log(&data_dir.join("postgres.log")),
            settings: settings::durable(&socket_folder),
            socket_folder,
            temporary: run_folder.as_ref().map(|folder| folder.path().to_owned()),
            stop_signal: Signal::SIGINT,
            patience: PERSISTENT_PATIENCE,
            is_called_off: Arc::default(),
        };
        let server = launch.start()?;
        Ok(Self { watch: None, server: Some(server), launch, run_folder, lock: Some(lock) })
    }

    /// A throw-away cluster for tests: fast, not durable, removed on drop and when this process dies.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], or [`Error::Failed`] when Postgres gives up.
    pub fn temporary() -> Result<Self, Error> {
        let (binaries, account) = (Binaries::newest()?, Account::for_server()?);
        let run_folder = RunFolder::create(&account)?;
        Self::temporary_in(run_folder, &binaries, &account, |cluster| {
            initialise_temporary(&binaries, &account, cluster)
        })
    }

    /// As [`Cluster::temporary`], of a server that can send what is committed to others by logical replication, and take it from them.
    ///
    /// # Errors
    /// As [`Cluster::temporary`].
    pub fn temporary_sending() -> Result<Self, Error> {
        let (binaries, account) = (Binaries::newest()?, Account::for_server()?);
        let run_folder = RunFolder::create(&account)?;
        let settings = settings::throw_away_sending(run_folder.path());
        let make = |cluster: &Path| initialise_temporary(&binaries, &account, cluster);
        Self::temporary_with(run_folder, (&binaries, &account), settings, make)
    }

    /// As [`Cluster::temporary_sending`], which waits for the disk as a kept one does: for measuring, and for programs that work on nothing
    /// else.
    ///
    /// # Errors
    /// As [`Cluster::temporary`].
    pub fn temporary_durable() -> Result<Self, Error> {
        let (binaries, account) = (Binaries::newest()?, Account::for_server()?);
        let run_folder = RunFolder::create(&account)?;
        let settings = settings::durable_sending(run_folder.path());
        let make = |cluster: &Path| initialise_temporary(&binaries, &account, cluster);
        Self::temporary_with(run_folder, (&binaries, &account), settings, make)
    }

    /// A throw-away cluster in `run_folder`; `make` fills the cluster's own empty folder.
    pub(crate) fn temporary_in(
        run_folder: RunFolder,
        binaries: &Binaries,
        account: &Account,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let settings = settings::throw_away(run_folder.path());
        Self::temporary_with(run_folder, (binaries, account), settings, make)
    }

    fn temporary_with(
        run_folder: RunFolder,
        (binaries, account): (&Binaries, &Account),
        settings: Vec<String>,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let cluster = run_folder.path().join(CLUSTER);
        account.create_folder(&cluster)?;
        make(&cluster)?;
        let launch = Launch {
            binaries: binaries.clone(),
            account: account.clone(),
            cluster,
            log: run_folder.path().join("postgres.log"),
            settings,
            socket_folder: run_folder.path().to_owned(),
            temporary: Some(run_folder.path().to_owned()),
            stop_signal: Signal::SIGQUIT,
            patience: TEMPORARY_PATIENCE,
            is_called_off: Arc::default(),
        };
        let server = launch.start()?;
        Ok(Self { watch: None, server: Some(server), launch, run_folder: Some(run_folder), lock: None })
    }

    /// Starts the server again whenever it has died, from now on. When that has failed too often, or the cluster is no more,
    /// `given_up` is told why, and nothing is tried any more.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn watch(&mut self, given_up: impl FnOnce(Error) + Send + 'static) -> Result<(), Error> {
        self.watch_at(&RETRIES_MS, given_up)
    }

    /// As [`Cluster::watch`]; `retries_ms` are the waits before each attempt.
    pub(crate) fn watch_at(
        &mut self,
        retries_ms: &'static [u64],
        given_up: impl FnOnce(Error) + Send + 'static,
    ) -> Result<(), Error> {
        let Some(server) = self.server.take() else { return Ok(()) };
        self.watch = Some(Watch::start(server, self.launch.clone(), retries_ms, given_up)?);
        Ok(())
    }

    /// The connection URL of a database, for libpq and what follows it:
    /// `postgresql:///billing?host=/var/lib/billing/socket&port=5432&user=postgres`.
    pub fn url(&self, database: &str) -> String {
        url(&self.launch.socket_folder, database)
    }

    /// Makes sure that there is a database of this name.
    ///
    /// # Errors
    /// [`Error::Refused`] with the server's reason.
    pub fn create_database_if_absent(&self, name: &str) -> Result<(), Error> {
        if self.has_database(name)? {
            return Ok(());
        }
        match self.query(&format!("CREATE DATABASE {}", wire::quote_identifier(name))) {
            Err(Error::Refused { code, .. }) if code == wire::DUPLICATE_DATABASE => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Whether there is a database of this name.
    ///
    /// # Errors
    /// [`Error::Refused`] with the server's reason.
    pub fn has_database(&self, name: &str) -> Result<bool, Error> {
        let statement = format!("SELECT 1 FROM pg_database WHERE datname = {}", wire::quote_literal(name));
        Ok(!self.query(&statement)?.is_empty())
    }

    /// Stops the server and waits for its end, as dropping does, but tells of trouble.
    ///
    /// # Errors
    /// [`Error::NotStopped`] when the server is still writing its last checkpoint.
    pub fn stop(mut self) -> Result<(), Error> {
        // A watched one stops with its watch.
        drop(self.watch.take());
        self.server.as_mut().map_or(Ok(()), Server::stop)
    }

    /// Where clients find it: the folder of its socket, and the port that is part of the socket's name.
    pub fn address(&self) -> (&Path, u16) {
        (&self.launch.socket_folder, settings::PORT)
    }

    pub(crate) fn socket_folder(&self) -> &Path {
        &self.launch.socket_folder
    }

    /// Runs one statement as superuser on the maintenance database; gives the first column.
    pub(crate) fn query(&self, statement: &str) -> Result<Vec<String>, Error> {
        wire::query(&self.launch.socket_folder, "postgres", statement)
    }

    /// Stops a throw-away cluster in an orderly way and hands its files, which are good for copies then, to `work`.
    pub(crate) fn stop_and<T>(mut self, work: impl FnOnce(&Path) -> Result<T, Error>) -> Result<T, Error> {
        if let Some(server) = &mut self.server {
            server.set_stop_signal(Signal::SIGINT);
            server.stop()?;
        }
        work(&self.launch.cluster)
    }
}

/// The connection URL of a database of the cluster in `data_dir`, while another process keeps that cluster running: for
/// a second program beside it. `None` when none is at work there.
pub fn running_url(data_dir: &Path, database: &str) -> Option<String> {
    let cluster = data_dir.canonicalize().ok()?.join(CLUSTER);
    Some(url(&pid_file::socket_of_running(&cluster)?, database))
}

fn url(socket_folder: &Path, database: &str) -> String {
    let host = socket_folder.to_string_lossy();
    format!(
        "postgresql:///{}?host={}&port={}&user=postgres",
        percent(database, ""),
        percent(&host, "/"),
        settings::PORT
    )
}

/// The folder of the user's in which `application` keeps its data: `$XDG_DATA_HOME` or `~/.local/share`; for root
/// `/var/lib`, since the account that runs Postgres for root cannot enter `/root`.
pub fn default_data_dir(application: &str) -> PathBuf {
    let parent = if Uid::effective().is_root() {
        PathBuf::from("/var/lib")
    } else {
        let given = env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
        given.or_else(|| home().map(|home| home.join(".local/share"))).unwrap_or_else(|| PathBuf::from("/var/tmp"))
    };
    parent.join(application)
}

fn home() -> Option<PathBuf> {
    let given = env::var_os("HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    given.or_else(|| User::from_uid(Uid::effective()).ok().flatten().map(|user| user.dir))
}

/// Creates `data_dir` when absent (for root such that the server's account can pass through) and gives its absolute
/// path.
fn create_data_dir(data_dir: &Path) -> Result<PathBuf, Error> {
    let mode = if Uid::effective().is_root() { 0o711 } else { 0o700 };
    let created = DirBuilder::new().recursive(true).mode(mode).create(data_dir);
    created.and_then(|()| data_dir.canonicalize()).map_err(Error::io("create", data_dir))
}

/// Whether there is a cluster, whole or not.
pub(crate) fn is_cluster(cluster: &Path) -> bool {
    cluster.join("PG_VERSION").exists()
}

/// The major version that made this cluster; `None` when there is none yet.
fn major_version_of(cluster: &Path) -> Result<Option<u32>, Error> {
    let not_a_cluster = || Error::NotACluster { folder: cluster.to_owned() };
    match fs::read_to_string(cluster.join("PG_VERSION")) {
        Ok(version) => version.trim().parse().map(Some).map_err(|_| not_a_cluster()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("read", cluster)(error)),
        // Removes an empty folder only.
        Err(_) if cluster.exists() => fs::remove_dir(cluster).map(|()| None).map_err(|_| not_a_cluster()),
        Err(_) => Ok(None),
    }
}

/// Makes the cluster beside its place and moves it there when complete: whatever interrupts this, a folder named
/// `cluster` is always whole.
fn initialise_persistent(data_dir: &Path, account: &Account) -> Result<Binaries, Error> {
    let binaries = Binaries::newest()?;
    log::info!("creating a Postgres {} cluster in {}", binaries.version, data_dir.display());
    remove_unfinished(data_dir);
    // A name of our own: an initdb of a killed process may still be writing under the name that it was given.
    let unfinished = data_dir.join(format!("{UNFINISHED_PREFIX}{}", std::process::id()));
    account.create_folder(&unfinished)?;
    if let Err(error) = initialise(&binaries, account, &unfinished, &["--data-checksums"]) {
        remove_unfinished(data_dir);
        return Err(error);
    }
    let cluster = data_dir.join(CLUSTER);
    fs::rename(&unfinished, &cluster).map_err(Error::io("move into place", &cluster))?;
    File::open(data_dir).and_then(|folder| folder.sync_all()).map_err(Error::io("write", data_dir))?;
    Ok(binaries)
}

fn remove_unfinished(data_dir: &Path) {
    for entry in fs::read_dir(data_dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED_PREFIX)
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            log::warn!("cannot remove {}: {error}", entry.path().display());
        }
    }
}

/// Fills `cluster` without waiting for the disk, and with small log files, so that it is quick to copy.
pub(crate) fn initialise_temporary(binaries: &Binaries, account: &Account, cluster: &Path) -> Result<(), Error> {
    initialise(binaries, account, cluster, &["--no-sync", "--wal-segsize=4"])
}

fn initialise(binaries: &Binaries, account: &Account, cluster: &Path, options: &[&str]) -> Result<(), Error> {
    let output = account
        .command(binaries.initdb())
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"])
        .args(options)
        .arg("-D")
        .arg(cluster)
        .output()
        .map_err(Error::io("run", &binaries.initdb()))?;
    if output.status.success() {
        return Ok(());
    }
    let output = tail(&String::from_utf8_lossy(&output.stderr)).to_owned();
    Err(Error::Failed { program: "initdb".to_owned(), output })
}

/// Beside the data when its path will do for a socket, else in the temporary folder.
fn socket_folder(data_dir: &Path, account: &Account) -> Result<(PathBuf, Option<RunFolder>), Error> {
    let folder = data_dir.join("socket");
    if !is_fit_for_socket(&folder) {
        let run_folder = RunFolder::create(account)?;
        return Ok((run_folder.path().to_owned(), Some(run_folder)));
    }
    // A killed server leaves its socket behind, and the folder may be another account's.
    let _ = fs::remove_dir_all(&folder);
    account.create_folder(&folder)?;
    Ok((folder, None))
}

/// Percent-encodes all but the plainest characters and those in `kept`.
fn percent(text: &str, kept: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-._~".contains(c) || kept.contains(c) {
            encoded.push(c);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_what_a_url_cannot_hold() {
        assert_eq!(percent("/tmp/a b", "/"), "/tmp/a%20b");
        assert_eq!(percent("ü?&/", ""), "%C3%BC%3F%26%2F");
    }
}
