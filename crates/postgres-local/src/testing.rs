//! One throw-away cluster per test process and one database per test.
//!
//! Making a cluster takes a second or two and migrating a database too, so both are done once and kept as an *image*
//! under the build's target folder. A test process starts a copy of it, which takes a fifth of a second, and gives
//! every test a copy of the template database inside. The copy is in memory where there is plenty, so this is not the
//! place for gigabytes: [`Cluster::temporary`] is.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::account::Account;
use crate::binaries::Binaries;
use crate::cluster::Cluster;
use crate::image::{self, Template};
use crate::{Error, wire};

/// The first major version that can copy a template's files instead of logging every page.
const MAJOR_WITH_FILE_COPY: u32 = 15;

/// The cluster of this process. Statics are never dropped: the server's companion stops it when this process ends. A
/// failure is kept, so that a broken migration does not cost every test the time of a new attempt.
static SHARED: Mutex<Option<Result<Shared, String>>> = Mutex::new(None);

struct Shared {
    cluster: Cluster,
    major: u32,
    /// The template databases that are ready in it.
    templates: BTreeSet<String>,
}

/// A database that belongs to one test; dropped together with its remaining connections.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
    socket_folder: PathBuf,
}

impl TestDatabase {
    /// The connection URL, for libpq and what follows it.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        if let Err(error) = wire::query(&self.socket_folder, "postgres", &statement) {
            log::warn!("{error}");
        }
    }
}

/// A new database, the same as one that `prepare`, given the URL of an empty database, has filled.
///
/// `prepare` runs once per `template_key` and Postgres version, not once per process: the key must change whenever the
/// outcome would, so take a hash of the migrations. It closes its connections before it returns.
///
/// # Errors
/// [`Error::NotInstalled`], [`Error::Unprepared`] with what `prepare` said, [`Error::Failed`] when Postgres gives up.
pub fn database(template_key: &str, prepare: &dyn Fn(&str) -> Result<(), String>) -> Result<TestDatabase, Error> {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let template = Template::new(template_key, prepare);
    // Unique, because the cluster is this process's own.
    let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let (major, database) = with_template(&template, |shared| {
        let (url, socket_folder) = (shared.cluster.url(&name), shared.cluster.socket_folder().to_owned());
        (shared.major, TestDatabase { url, socket_folder, name })
    })?;
    let strategy = if major >= MAJOR_WITH_FILE_COPY { " STRATEGY file_copy" } else { "" };
    let statement = format!("CREATE DATABASE {} TEMPLATE {}{strategy}", database.name, template.database);
    // Outside the lock: tests make their databases side by side.
    wire::query(&database.socket_folder, "postgres", &statement)?;
    Ok(database)
}

/// Hands the shared cluster to `work` once the template is in it.
fn with_template<T>(template: &Template<'_>, work: impl FnOnce(&Shared) -> T) -> Result<T, Error> {
    let mut slot = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.is_none() {
        let started = start(template);
        *slot = Some(started.map_err(|error| error.to_string()));
    }
    let shared = match slot.as_mut().expect("filled above") {
        Ok(shared) => shared,
        Err(message) => return Err(Error::Unprepared(message.clone())),
    };
    if shared.templates.insert(template.database.clone())
        && let Err(error) = template.make_in(&shared.cluster)
    {
        *slot = Some(Err(error.to_string()));
        return Err(error);
    }
    Ok(work(shared))
}

fn start(template: &Template<'_>) -> Result<Shared, Error> {
    let (binaries, account) = (Binaries::newest()?, Account::for_server()?);
    let cluster = image::start_copy(&binaries, &account, template)?;
    Ok(Shared { cluster, major: binaries.major, templates: BTreeSet::from([template.database.clone()]) })
}
