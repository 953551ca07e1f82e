//! Bringing a database up to date, once, whoever else tries.
//!
//! There are two sets of migrations: the catalogue, and what customers own. The second one names no schema of its own: it makes
//! its tables in the first schema of the connection's search path, and finds the catalogue behind that. Each schema remembers
//! which migrations it has; in one schema the two sets share that memory, so no version is in both.

use billing_domain::StoreError;
use diesel::connection::SimpleConnection;
use diesel::migration::{Migration, MigrationSource};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::Bool;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use crate::pg::catalogue_copy;
use crate::pg::citus;
use crate::pg::error::Failure;
use crate::pg::lane::{self, HasTable};
use crate::pg::lock::{LockClass, lock_for_connection};
use crate::pg::place::search_path;
use crate::pg::statement::statement;
use crate::pg::url;

/// What organizations offer, and what the service keeps beside its customers.
const CATALOGUE: EmbeddedMigrations = embed_migrations!("../../migrations/catalogue");
/// What customers own. It refers to the catalogue, and never the other way round.
const CUSTOMERS: EmbeddedMigrations = embed_migrations!("../../migrations/customers");

/// The first version of the history that came before the baseline. A database that has it has other tables than those that the
/// migrations of today go on from.
const BEFORE_BASELINE: &str = "0001";
const IS_BEFORE_BASELINE: &str = "this database was made by a development version from before the first release, and nothing leads \
    from there to here. Dump its events if they are still wanted (pg_dump --data-only --table='events*'), and start with an empty \
    database";

const IS_SPLITTING: &str = "the customers of this database are being divided into lanes, and that was not ended: run \
    `billing-http lanes split` again";

diesel::table! {
    #[sql_name = "__diesel_schema_migrations"]
    migrations (version) {
        version -> Text,
    }
}

/// The migrations of a set, in the order in which they are applied.
fn embedded(set: EmbeddedMigrations) -> Result<Vec<Box<dyn Migration<Pg>>>, StoreError> {
    let mut migrations: Vec<Box<dyn Migration<Pg>>> = set.migrations().map_err(|error| internal(error.as_ref()))?;
    migrations.sort_unstable_by(|a, b| a.name().version().cmp(&b.name().version()));
    Ok(migrations)
}

fn versions(set: EmbeddedMigrations) -> Result<Vec<String>, StoreError> {
    Ok(embedded(set)?.iter().map(|each| each.name().version().to_string()).collect())
}

/// The versions of the catalogue's set that this program was built with, in the order in which they are applied.
pub(crate) fn catalogue_versions() -> Result<Vec<String>, StoreError> {
    versions(CATALOGUE)
}

/// Those of the customers' set.
pub(crate) fn customers_versions() -> Result<Vec<String>, StoreError> {
    versions(CUSTOMERS)
}

/// Those of both, the catalogue's first: what refers comes after what it refers to.
pub(crate) fn embedded_versions() -> Result<Vec<String>, StoreError> {
    Ok([catalogue_versions()?, customers_versions()?].concat())
}

/// The versions the database has, in order.
pub(crate) fn applied_versions(connection: &mut PgConnection) -> QueryResult<Vec<String>> {
    migrations::table.select(migrations::version).order(migrations::version).load(connection)
}

/// Applies what is missing, to the catalogue and to each lane, wherever it is, and does what is `left` to do in each lane, before anybody
/// else can; answers the versions it applied. A database that has none yet gets so many `lanes`. A node that does not answer is left out
/// where the catalogue lacks nothing.
pub(crate) fn migrate(
    url: &str,
    lanes: Option<u16>,
    left: impl Fn(&mut PgConnection),
) -> Result<Vec<String>, StoreError> {
    let mut connection = url::connect(url)?;
    let lock = lock_for_connection(&mut connection, LockClass::Migration);
    lock.map_err(as_store_error)?;
    citus::keep_what_is_made(&mut connection).map_err(as_store_error)?;
    refuse_older(&mut connection)?;
    let (mut applied, mut nodes) = migrate_catalogue(url, &mut connection)?;
    let schemas = lane::schemas(&mut connection).map_err(as_store_error)?;
    if schemas.is_empty() && lane::is_splitting(&mut connection).map_err(as_store_error)? {
        return Err(StoreError::Internal(IS_SPLITTING.to_owned()));
    }
    let planned = lane::planned(schemas, lanes)?;
    let directory = lane::directory(&mut connection).map_err(as_store_error)?;
    for schema in planned.schemas() {
        if directory.iter().any(|row| row.placed.as_deref() == Some(schema)) {
            let versions = migrate_placed(&mut connection, schema)?;
            applied.extend(versions.into_iter().filter(|version| !applied.contains(version)).collect::<Vec<_>>());
            continue;
        }
        let node = directory.iter().find(|row| row.schema == schema).and_then(|row| row.node.as_ref());
        let place = match node.map(|node| nodes.iter_mut().find(|(name, _)| *name == node.name)) {
            None => &mut connection,
            Some(Some((_, there))) => there,
            // It does not answer.
            Some(None) => continue,
        };
        let versions = enter_lane(place, schema)?;
        // Mostly each lane lacks the same.
        applied.extend(versions.into_iter().filter(|version| !applied.contains(version)).collect::<Vec<_>>());
        left(place);
    }
    planned.note(&mut connection).map_err(as_store_error)?;
    Ok(applied)
}

/// Connections to nodes, each with the node's name.
type Nodes = Vec<(String, PgConnection)>;

/// Applies what the catalogue lacks, first to the copies that nodes have, so that whoever takes what is sent understands it.
fn migrate_catalogue(url: &str, home: &mut PgConnection) -> Result<(Vec<String>, Nodes), StoreError> {
    let known = catalogue_copy::all_nodes(home).map_err(as_store_error)?;
    let is_behind = home.has_pending_migration(CATALOGUE).map_err(|error| internal(error.as_ref()))?;
    let mut nodes = Nodes::new();
    for node in &known {
        match catalogue_copy::connect(url, node) {
            Ok(there) => nodes.push((node.name.clone(), there)),
            Err(error) if is_behind => return Err(error),
            Err(error) => log::warn!("the node {} is not looked at for migrations: {error}", node.name),
        }
    }
    for (_, there) in &mut nodes {
        apply(there, CATALOGUE)?;
        there.transaction(|pg| catalogue_copy::prepare(pg, true)).map_err(Failure::into_store_error)?;
    }
    let applied = apply(home, CATALOGUE)?;
    if !known.is_empty() {
        home.transaction(catalogue_copy::publish).map_err(Failure::into_store_error)?;
    }
    for (_, there) in &mut nodes {
        catalogue_copy::take_new(there).map_err(as_store_error)?;
    }
    Ok((applied, nodes))
}

/// Applies what a lane lacks that an engine has placed, which has it on the lane's node too.
fn migrate_placed(home: &mut PgConnection, schema: &str) -> Result<Vec<String>, StoreError> {
    citus::make_on_nodes(home, true).map_err(as_store_error)?;
    let versions = enter_lane(home, schema);
    citus::make_on_nodes(home, false).map_err(as_store_error)?;
    versions
}

/// Makes a lane if it is not there, and applies what is missing in it; the connection looks there first from now on.
fn enter_lane(connection: &mut PgConnection, schema: &str) -> Result<Vec<String>, StoreError> {
    // Whoever may not make schemas can still work in those that are there.
    if !lane::has_schema(connection, schema).map_err(as_store_error)? {
        connection.batch_execute(&format!("CREATE SCHEMA {schema}")).map_err(as_store_error)?;
    }
    connection.batch_execute(&search_path(schema)).map_err(as_store_error)?;
    apply(connection, CUSTOMERS)
}

/// Makes a lane that the directory does not name yet, and does what is `left` to do in it.
pub(crate) fn make_lane(url: &str, schema: &str, left: impl Fn(&mut PgConnection)) -> Result<(), StoreError> {
    let mut connection = url::connect(url)?;
    enter_lane(&mut connection, schema)?;
    left(&mut connection);
    Ok(())
}

/// Makes the tables of the catalogue in a database of its own, or brings them up to date.
pub(crate) fn make_catalogue(url: &str) -> Result<Vec<String>, StoreError> {
    let mut connection = url::connect(url)?;
    citus::keep_what_is_made(&mut connection).map_err(as_store_error)?;
    refuse_older(&mut connection)?;
    apply(&mut connection, CATALOGUE)
}

/// Refuses a lane that lacks a migration: its node did not answer when the others were migrated. What is not here is no lane, and whoever
/// looks for it will see that.
pub(crate) fn expect_customers_versions(pg: &mut PgConnection) -> Result<(), Failure> {
    if !(HasTable { name: "customers".to_owned() }).get_result::<bool>(pg)? {
        return Ok(());
    }
    let applied = applied_versions(pg)?;
    match customers_versions()?.into_iter().find(|version| !applied.contains(version)) {
        None => Ok(()),
        Some(version) => {
            let message = format!("a lane on a node lacks the migration {version}: run `billing-http migrate`");
            Err(StoreError::Unavailable(message).into())
        }
    }
}

/// Forgets, where the connection looks first, that it has what customers own.
pub(crate) fn forget_customers_versions(pg: &mut PgConnection) -> QueryResult<()> {
    let versions = customers_versions().unwrap_or_default();
    diesel::delete(migrations::table.filter(migrations::version.eq_any(versions))).execute(pg).map(drop)
}

statement! {
    /// Whether there is a table that every version has.
    HasOrganizations -> Bool { "SELECT to_regclass('public.organizations') IS NOT NULL" }
}

/// Whether the database at `url` has tables of this service.
pub(crate) fn is_made(url: &str) -> Result<bool, StoreError> {
    let mut connection = url::connect(url)?;
    (HasOrganizations {}).get_result(&mut connection).map_err(as_store_error)
}

/// Applies what is missing of a set, where the connection looks first.
fn apply(connection: &mut PgConnection, set: EmbeddedMigrations) -> Result<Vec<String>, StoreError> {
    let versions = connection.run_pending_migrations(set).map_err(|error| internal(error.as_ref()))?;
    Ok(versions.iter().map(ToString::to_string).collect())
}

fn as_store_error(error: diesel::result::Error) -> StoreError {
    Failure::from(error).into_store_error()
}

/// Refuses a database whose tables are not those of the baseline.
fn refuse_older(connection: &mut PgConnection) -> Result<(), StoreError> {
    // Diesel makes the table of versions where it is missing.
    let applied = connection.applied_migrations().map_err(|error| internal(error.as_ref()))?;
    if applied.iter().any(|version| version.to_string() == BEFORE_BASELINE) {
        return Err(StoreError::Internal(IS_BEFORE_BASELINE.to_owned()));
    }
    Ok(())
}

/// Takes everything back, last first: for tests.
#[cfg(feature = "testing")]
pub(crate) fn revert(url: &str) -> Result<Vec<String>, StoreError> {
    let mut connection = url::connect(url)?;
    let mut reverted = Vec::new();
    for migration in embedded(CUSTOMERS)?.iter().rev().chain(embedded(CATALOGUE)?.iter().rev()) {
        let version = connection.revert_migration(migration.as_ref()).map_err(|error| internal(error.as_ref()))?;
        reverted.push(version.to_string());
    }
    Ok(reverted)
}

/// Makes a schema with what customers own, and nothing else, beside the catalogue in `public`: for tests.
#[cfg(feature = "testing")]
pub(crate) fn make_customers_schema(url: &str, name: &str) -> Result<Vec<String>, StoreError> {
    let mut connection = url::connect(url)?;
    let schema = format!("CREATE SCHEMA {name}; SET search_path = {name}, public");
    connection.batch_execute(&schema).map_err(|error| Failure::from(error).into_store_error())?;
    let versions = connection.run_pending_migrations(CUSTOMERS).map_err(|error| internal(error.as_ref()))?;
    Ok(versions.iter().map(ToString::to_string).collect())
}

fn internal(error: &(dyn std::error::Error + Send + Sync)) -> StoreError {
    StoreError::Internal(format!("migration: {error}"))
}
