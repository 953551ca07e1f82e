//! A short-lived folder for a socket or a whole throw-away cluster, and the sweeping of those that crashes leave
//! behind.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::statvfs;
use nix::unistd::{Pid, Uid};

use crate::account::Account;
use crate::{Error, pid_file};

/// Followed by the process id of its maker and a number.
const PREFIX: &str = "postgres-local-";

/// The system's limit is 104 to 108 bytes for the whole path of a socket.
const SOCKET_PATH_BYTES_MAX: usize = 100;

/// Whether a socket in `folder` has a path that the system takes, and that a setting and a URL can spell.
pub(crate) fn is_fit_for_socket(folder: &Path) -> bool {
    folder.to_str().is_some_and(|path| path.len() + "/.s.PGSQL.5432".len() <= SOCKET_PATH_BYTES_MAX)
}

/// A folder `postgres-local-<pid>-<number>` of the server's account, removed on drop. Its lock tells sweepers that its
/// maker lives, also when that runs in another process name space over the same temporary folder.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    #[expect(dead_code, reason = "dropping the file releases the lock")]
    lock: File,
}

impl RunFolder {
    /// Makes a new one in the temporary folder, after sweeping those of the dead.
    pub fn create(account: &Account) -> Result<Self, Error> {
        Self::create_in_one_of(&[env::temp_dir(), "/tmp".into(), "/var/tmp".into()], account)
    }

    /// Makes a new one in memory when there is plenty of it. A database is some 300 files, and there they cost nothing.
    pub fn create_in_memory(account: &Account) -> Result<Self, Error> {
        let memory = Path::new("/dev/shm");
        if is_roomy(memory)
            && let Ok(created) = Self::create_in_one_of(&[memory.to_owned()], account)
        {
            return Ok(created);
        }
        Self::create(account)
    }

    fn create_in_one_of(folders: &[PathBuf], account: &Account) -> Result<Self, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let parent = first_usable(folders, account)?;
        sweep(&parent, account);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match account.create_folder(&path) {
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            }
            let lock = File::open(&path).map_err(Error::io("open", &path))?;
            lock.lock().map_err(Error::io("lock", &path))?;
            return Ok(Self { path, lock });
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a folder and all in it, which another process may be doing as well.
fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            log::warn!("cannot remove {}: {error}", path.display())
        }
        _ => {}
    }
}

/// Much more than tests need, so that they do not crowd out others.
#[allow(clippy::useless_conversion, reason = "the types are narrower on other systems")]
/// What is left of the disk below `folder` for those who are not root, in bytes; `None` where the system does not tell.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    Some(u64::from(disk.blocks_available()).saturating_mul(u64::from(disk.fragment_size())))
}

fn is_roomy(folder: &Path) -> bool {
    const FREE_BYTES_MIN: u64 = 2 << 30;
    free_bytes(folder).is_some_and(|free| free >= FREE_BYTES_MIN)
}

/// The first folder that is not too deep for a socket nor closed to the server's account.
fn first_usable(folders: &[PathBuf], account: &Account) -> Result<PathBuf, Error> {
    let longest_name = format!("{PREFIX}{}-{}", u32::MAX, u32::MAX);
    for folder in folders.iter().filter_map(|folder| folder.canonicalize().ok()) {
        if is_fit_for_socket(&folder.join(&longest_name)) && account.closed_on_way_to(&folder)?.is_none() {
            return Ok(folder);
        }
    }
    let names = folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ");
    let reason = io::Error::other("too deep for a socket, or closed to the account that runs Postgres");
    Err(Error::io("use any of", Path::new(&names))(reason))
}

/// Removes what the dead left in `parent`, after stopping their servers. What cannot be removed is somebody else's
/// worry.
fn sweep(parent: &Path, account: &Account) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(maker) = name.to_str().and_then(maker_of) else { continue };
        let folder = entry.path();
        if is_alive(maker) || !is_ours(&folder, account) || !is_unlocked(&folder) {
            continue;
        }
        log::info!("removing {}, left by process {maker}", folder.display());
        if let Err(error) = pid_file::settle(&folder.join("cluster"), Signal::SIGQUIT) {
            log::warn!("{error}");
            continue;
        }
        remove(&folder);
    }
}

fn maker_of(name: &str) -> Option<i32> {
    let (pid, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    number.parse::<u32>().ok()?;
    pid.parse().ok().filter(|pid| *pid > 0)
}

fn is_alive(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH)
}

/// Others may put anything into a shared temporary folder; a link, for one, is never followed.
fn is_ours(folder: &Path, account: &Account) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|metadata| {
        metadata.is_dir() && (metadata.uid() == Uid::effective().as_raw() || metadata.uid() == account.uid())
    })
}

fn is_unlocked(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|file| file.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_names_it_gives() {
        assert_eq!(maker_of("postgres-local-123-4"), Some(123));
        for other in ["postgres-local-123", "postgres-local-x-1", "postgres-local--1-2", "postgres-local-1-b", "123-4"]
        {
            assert_eq!(maker_of(other), None, "{other}");
        }
    }
}
