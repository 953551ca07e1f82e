//! Images: stopped clusters with a filled template database in them, kept on disk to be copied.

use std::cmp::Reverse;
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::unistd::Uid;

use crate::Error;
use crate::account::Account;
use crate::binaries::Binaries;
use crate::cluster::{Cluster, initialise_temporary};
use crate::run_folder::RunFolder;

/// Changes whenever images are made differently.
const FORMAT: u32 = 1;

/// Images of earlier schemas are only good for going back to them; each takes some 40 MB.
const IMAGES_KEPT: usize = 3;

const UNFINISHED_EXTENSION: &str = "new";

/// A database that others are copies of.
pub(crate) struct Template<'a> {
    /// Its name, made of the key.
    pub database: String,
    prepare: &'a dyn Fn(&str) -> Result<(), String>,
}

impl<'a> Template<'a> {
    pub fn new(key: &str, prepare: &'a dyn Fn(&str) -> Result<(), String>) -> Self {
        let mut hasher = DefaultHasher::new();
        (FORMAT, key).hash(&mut hasher);
        Self { database: format!("template_{:016x}", hasher.finish()), prepare }
    }

    /// Creates and fills the template in a running cluster.
    pub fn make_in(&self, cluster: &Cluster) -> Result<(), Error> {
        cluster.create_database_if_absent(&self.database)?;
        (self.prepare)(&cluster.url(&self.database)).map_err(Error::Unprepared)?;
        // A test that connects to the template by mistake would keep the others from copying it.
        cluster.query(&format!("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false", self.database)).map(drop)
    }
}

/// Starts a throw-away cluster that has the template in it, out of the image, which is made first when it is absent.
pub(crate) fn start_copy(binaries: &Binaries, account: &Account, template: &Template<'_>) -> Result<Cluster, Error> {
    let store = ImageStore::open()?;
    let image = store.folder.join(format!("{}-{}", binaries.version, template.database));
    loop {
        // Shared while copying, so that nobody sweeps the image away meanwhile.
        store.lock.lock_shared().map_err(Error::io("lock", &store.folder))?;
        if image.is_dir() {
            // Used just now; when that cannot be written, it is only made anew one day.
            let _ = File::open(&image).and_then(|folder| folder.set_modified(SystemTime::now()));
            let run_folder = RunFolder::create_in_memory(account)?;
            return Cluster::temporary_in(run_folder, binaries, account, |cluster| copy_tree(&image, cluster, account));
        }
        store.lock.unlock().map_err(Error::io("unlock", &store.folder))?;
        store.lock.lock().map_err(Error::io("lock", &store.folder))?;
        if !image.is_dir() {
            store.sweep();
            make(binaries, account, template, &image)?;
        }
        store.lock.unlock().map_err(Error::io("unlock", &store.folder))?;
    }
}

fn make(binaries: &Binaries, account: &Account, template: &Template<'_>, image: &Path) -> Result<(), Error> {
    log::info!("making the test image {}", image.display());
    let run_folder = RunFolder::create_in_memory(account)?;
    let fill = |cluster: &Path| initialise_temporary(binaries, account, cluster);
    let cluster = Cluster::temporary_in(run_folder, binaries, account, fill)?;
    template.make_in(&cluster)?;
    let unfinished = &image.with_added_extension(UNFINISHED_EXTENSION);
    cluster.stop_and(|files| {
        DirBuilder::new().mode(0o700).create(unfinished).map_err(Error::io("create", unfinished))?;
        copy_tree(files, unfinished, &Account::ourselves())
    })?;
    fs::rename(unfinished, image).map_err(Error::io("move into place", image))
}

/// Copies what is in `from` into the folder `to`, for `owner`.
fn copy_tree(from: &Path, to: &Path, owner: &Account) -> Result<(), Error> {
    for entry in fs::read_dir(from).map_err(Error::io("read", from))? {
        let entry = entry.map_err(Error::io("read", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            owner.create_folder(&target)?;
            copy_tree(&source, &target, owner)?;
        } else {
            fs::copy(&source, &target).map_err(Error::io("copy", &source))?;
            owner.give(&target)?;
        }
    }
    Ok(())
}

/// The folder with all images, and its lock: shared to copy from it, exclusive to change it.
struct ImageStore {
    folder: PathBuf,
    lock: File,
}

impl ImageStore {
    /// Under the target folder of the build that this test belongs to, else in the temporary folder.
    fn open() -> Result<Self, Error> {
        let beside = target_folder().and_then(|target| Self::open_in(target.join("postgres-local")).ok());
        let user = Uid::effective();
        beside.map_or_else(|| Self::open_in(env::temp_dir().join(format!("postgres-local-images-{user}"))), Ok)
    }

    fn open_in(folder: PathBuf) -> Result<Self, Error> {
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("create", &folder)(error));
            }
            _ => {}
        }
        // In a shared folder, somebody else may have been first with this name.
        let metadata = fs::symlink_metadata(&folder).map_err(Error::io("look at", &folder))?;
        if !metadata.is_dir() || metadata.uid() != Uid::effective().as_raw() || metadata.mode() & 0o077 != 0 {
            return Err(Error::io("use", &folder)(io::Error::other("it is not a private folder of ours")));
        }
        let path = folder.join("lock");
        let lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        Ok(Self { lock: lock.map_err(Error::io("open", &path))?, folder })
    }

    /// Removes what was left unfinished, and all but the images used last. The lock is held exclusively.
    fn sweep(&self) {
        let folders = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let (unfinished, mut images): (Vec<PathBuf>, Vec<PathBuf>) = folders
            .filter(|path| path.is_dir())
            .partition(|path| path.extension().is_some_and(|extension| extension == UNFINISHED_EXTENSION));
        images.sort_by_key(|path| Reverse(path.metadata().and_then(|metadata| metadata.modified()).ok()));
        for folder in unfinished.iter().chain(images.iter().skip(IMAGES_KEPT)) {
            // The next sweep tries again.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// `target` for a test binary `target/debug/deps/name`.
fn target_folder() -> Option<PathBuf> {
    let binary = env::current_exe().ok()?;
    let dependencies = binary.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "deps"))?;
    Some(dependencies.parent()?.parent()?.to_owned())
}
