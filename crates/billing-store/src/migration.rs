//! Bringing a database up to date, once, whoever else tries.

use billing_domain::StoreError;
use diesel::migration::{Migration, MigrationSource};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::Integer;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use crate::custom_sql;
use crate::error::Failure;
use crate::statement::statement;
use crate::transaction::LOCK_CLASS_MIGRATION;

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations");

diesel::table! {
    #[sql_name = "__diesel_schema_migrations"]
    migrations (version) {
        version -> Text,
    }
}

statement! {
    /// Waits until nobody else migrates this database; held until the connection closes.
    LockMigrations -> Integer { "SELECT pg_advisory_lock(" class: i32 as Integer; ", 0)" }
}

/// The versions this program was built with, in order.
pub(crate) fn embedded_versions() -> Result<Vec<String>, StoreError> {
    let migrations: Vec<Box<dyn Migration<Pg>>> = MIGRATIONS.migrations().map_err(|error| internal(error.as_ref()))?;
    let mut versions: Vec<String> = migrations.iter().map(|each| each.name().version().to_string()).collect();
    versions.sort();
    Ok(versions)
}

/// The versions the database has, in order.
pub(crate) fn applied_versions(connection: &mut PgConnection) -> QueryResult<Vec<String>> {
    migrations::table.select(migrations::version).order(migrations::version).load(connection)
}

/// Applies what is missing; answers the versions it applied.
pub(crate) fn migrate(url: &str) -> Result<Vec<String>, StoreError> {
    let mut connection = PgConnection::establish(url).map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let lock = LockMigrations { class: LOCK_CLASS_MIGRATION }.execute(&mut connection);
    lock.map_err(|error| Failure::from(error).into_store_error())?;
    let applied = connection.run_pending_migrations(MIGRATIONS).map_err(|error| internal(error.as_ref()))?;
    let applied = applied.iter().map(ToString::to_string).collect();
    custom_sql::prepare(&mut connection);
    Ok(applied)
}

/// Takes everything back, last first: for tests.
#[cfg(feature = "testing")]
pub(crate) fn revert(url: &str) -> Result<Vec<String>, StoreError> {
    let mut connection = PgConnection::establish(url).map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let reverted = connection.revert_all_migrations(MIGRATIONS).map_err(|error| internal(error.as_ref()))?;
    Ok(reverted.iter().map(ToString::to_string).collect())
}

fn internal(error: &(dyn std::error::Error + Send + Sync)) -> StoreError {
    StoreError::Internal(format!("migration: {error}"))
}
