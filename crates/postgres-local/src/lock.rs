//! Exclusive use of a data folder, released by the operating system however its holder ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

/// Long enough for a predecessor that is just about to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Holds a file in `folder` locked, with our process id in it for whoever comes second.
#[derive(Debug)]
pub(crate) struct FolderLock(#[expect(dead_code, reason = "dropping the file releases the lock")] File);

impl FolderLock {
    /// # Errors
    /// [`Error::InUse`] with the holder's process id, after a short wait.
    pub fn acquire(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(Error::io("open", &path))?;
        if !wait_for(&file, PATIENCE).map_err(Error::io("lock", &path))? {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(Error::io("read", &path))?;
            return Err(Error::InUse { folder: folder.to_owned(), pid: pid.trim().to_owned() });
        }
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(Error::io("write", &path))?;
        Ok(Self(file))
    }
}

fn wait_for(file: &File, patience: Duration) -> std::io::Result<bool> {
    let deadline = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(false),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(50)),
        }
    }
}
