//! The migrations are compiled in, which Cargo cannot see by itself; and tests keep migrated databases for as long as
//! no migration changes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> io::Result<()> {
    let migrations = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../migrations");
    let mut files = BTreeMap::new();
    read_all(&migrations, &mut files)?;
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    // A build script speaks to Cargo on standard output.
    let mut cargo = io::stdout().lock();
    writeln!(cargo, "cargo:rerun-if-changed={}", migrations.display())?;
    writeln!(cargo, "cargo:rustc-env=MIGRATIONS_HASH={:016x}", hasher.finish())
}

fn read_all(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, files)?;
        } else {
            let content = fs::read(&path)?;
            files.insert(path, content);
        }
    }
    Ok(())
}
