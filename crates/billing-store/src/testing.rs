//! A database of its own for every test, in a throw-away cluster that all tests of a process share.

use std::ops::Deref;

use billing_domain::StoreError;
use postgres_local::testing::TestDatabase;

use crate::{PgStore, migration};

/// Changes whenever a migration does.
const MIGRATIONS_HASH: &str = env!("MIGRATIONS_HASH");
/// Connections of one test's store: enough for the threads of a test that races.
const POOL_SIZE: u32 = 12;

/// A store on an empty, migrated database that goes away with it.
pub struct TestStore {
    // In the order of dropping: connections before their database.
    store: PgStore,
    database: TestDatabase,
}

impl TestStore {
    /// A store with nothing in it.
    ///
    /// # Panics
    /// When no Postgres is installed (the message says how to get one) or a migration fails.
    #[expect(clippy::new_without_default, reason = "it starts a database")]
    pub fn new() -> Self {
        let migrate = |url: &str| migration::migrate(url).map(drop).map_err(|error| error.to_string());
        let database = postgres_local::testing::database(MIGRATIONS_HASH, &migrate);
        let database = database.unwrap_or_else(|error| panic!("{error}"));
        let store = PgStore::connect(database.url(), POOL_SIZE).unwrap_or_else(|error| panic!("{error}"));
        Self { store, database }
    }

    /// Where the database is, for connections of the test's own.
    pub fn url(&self) -> &str {
        self.database.url()
    }

    /// A clone of the store, to be given away.
    pub fn store(&self) -> PgStore {
        self.store.clone()
    }
}

impl Deref for TestStore {
    type Target = PgStore;

    fn deref(&self) -> &PgStore {
        &self.store
    }
}

/// An empty database without any migration.
///
/// # Panics
/// As [`TestStore::new`].
pub fn empty_database() -> TestDatabase {
    postgres_local::testing::database("empty", &|_| Ok(())).unwrap_or_else(|error| panic!("{error}"))
}

/// Takes back every migration of the database at `url`, last first, and answers their versions.
///
/// # Errors
/// [`StoreError::Internal`] with the migration that failed.
pub fn revert(url: &str) -> Result<Vec<String>, StoreError> {
    migration::revert(url)
}
