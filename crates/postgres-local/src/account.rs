//! Whom the server runs as. Postgres refuses root, so root lends its server to an unprivileged account.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Uid, User};

use crate::Error;

#[derive(Clone, Debug)]
pub(crate) struct Account {
    name: String,
    uid: u32,
    /// The group to change to; `None` when the server runs as ourselves.
    lent_to_gid: Option<u32>,
}

impl Account {
    /// Ourselves, or for root the account `postgres`, else `nobody`.
    pub fn for_server() -> Result<Self, Error> {
        if !Uid::effective().is_root() {
            return Ok(Self::ourselves());
        }
        ["postgres", "nobody"]
            .iter()
            .find_map(|name| User::from_name(name).ok().flatten())
            .map(|user| Self { name: user.name, uid: user.uid.as_raw(), lent_to_gid: Some(user.gid.as_raw()) })
            .ok_or(Error::NoAccount)
    }

    /// For a cluster that exists: its owner, since Postgres serves only files of its own.
    pub fn owning(cluster: &Path) -> Result<Self, Error> {
        let metadata = fs::metadata(cluster).map_err(Error::io("look at", cluster))?;
        if !Uid::effective().is_root() || metadata.uid() == 0 {
            return Self::for_server();
        }
        let name = User::from_uid(Uid::from_raw(metadata.uid())).ok().flatten();
        let name = name.map_or_else(|| metadata.uid().to_string(), |user| user.name);
        Ok(Self { name, uid: metadata.uid(), lent_to_gid: Some(metadata.gid()) })
    }

    pub fn ourselves() -> Self {
        let uid = Uid::effective();
        let name = User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
        Self { name, uid: uid.as_raw(), lent_to_gid: None }
    }

    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// A command that runs as this account, where it can always stand, and untouched by the caller's `PG*` settings.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/");
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        if let Some(gid) = self.lent_to_gid {
            // Supplementary groups go too: the standard library drops them together with the uid.
            command.uid(self.uid).gid(gid);
        }
        command
    }

    /// Makes `path` this account's own.
    pub fn give(&self, path: &Path) -> Result<(), Error> {
        match self.lent_to_gid {
            Some(gid) => chown(path, Some(self.uid), Some(gid)).map_err(Error::io("change the owner of", path)),
            None => Ok(()),
        }
    }

    /// Creates a folder that only this account (and root) can enter; fails when it exists.
    pub fn create_folder(&self, path: &Path) -> Result<(), Error> {
        DirBuilder::new().mode(0o700).create(path).map_err(Error::io("create", path))?;
        self.give(path)
    }

    /// Makes sure that `folder`, which is the application's own, can be entered by this account.
    ///
    /// # Errors
    /// [`Error::NotEnterable`] when a folder above it is closed: those are not ours to open.
    pub fn open_way_to(&self, folder: &Path) -> Result<(), Error> {
        let Some(closed) = self.closed_on_way_to(folder)? else { return Ok(()) };
        if closed == folder {
            let mode = fs::metadata(folder).map_err(Error::io("look at", folder))?.mode();
            let permissions = Permissions::from_mode((mode & 0o7777) | 0o011);
            fs::set_permissions(folder, permissions).map_err(Error::io("open", folder))?;
        }
        match self.closed_on_way_to(folder)? {
            Some(closed) => Err(Error::NotEnterable { account: self.name.clone(), folder: closed }),
            None => Ok(()),
        }
    }

    /// The first folder on the way from the root to `folder` that this account cannot enter. Tried by the account
    /// itself, because permission bits alone do not tell (access lists, name spaces).
    pub fn closed_on_way_to(&self, folder: &Path) -> Result<Option<PathBuf>, Error> {
        if self.lent_to_gid.is_none() {
            return Ok(None);
        }
        const ENTER_EACH: &str = r#"for f; do cd "$f" 2>/dev/null || { printf %s "$f"; exit; }; done"#;
        let mut way: Vec<&Path> = folder.ancestors().collect();
        way.reverse();
        let output = self
            .command("/bin/sh")
            .args(["-c", ENTER_EACH, "sh"])
            .args(way)
            .output()
            .map_err(Error::io("run", Path::new("/bin/sh")))?;
        let closed = String::from_utf8_lossy(&output.stdout);
        Ok((!closed.is_empty()).then(|| PathBuf::from(closed.as_ref())))
    }
}
