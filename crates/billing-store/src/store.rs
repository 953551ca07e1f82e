//! The store as others see it: connecting, health, durability, and the doors that need no scope.

use std::sync::Arc;
use std::time::Duration;

use billing_domain::id::OrganizationId;
use billing_domain::idempotency::{Claim, ClaimedWork};
use billing_domain::store::{KeyRing, Scope, Store, Work};
use billing_domain::{Error, StoreError, api_key::ApiKey};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Integer, Text};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::custom_sql::Reader;
use crate::error::Failure;
use crate::ingest::{Groups, IngestCache};
use crate::pool::Pool;
use crate::statement::statement;
use crate::usage::Beginnings;
use crate::{api_key, migration, partition, schema};

/// How long the readiness check may take, in milliseconds.
const PING_MAX: Duration = Duration::from_millis(500);

/// The billing store on Postgres. Cheap to clone: all clones share one pool.
///
/// Every call blocks its thread; an asynchronous caller has threads for that.
#[derive(Clone)]
pub struct PgStore {
    pub(crate) shared: Arc<Shared>,
}

/// What all clones of a store share.
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) ingest: IngestCache,
    pub(crate) groups: Groups,
    pub(crate) beginnings: Beginnings,
    pub(crate) reader: Reader,
}

/// What a store is busy with at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Connections that are open.
    pub connections: u32,
    /// Those of them that nobody uses.
    pub idle_connections: u32,
    /// Most connections there may be.
    pub connections_max: u32,
    /// Events that wait for a transaction.
    pub waiting_events: usize,
    /// Transactions that store events.
    pub ingesting: usize,
    /// Key ranges of which one transaction at a time takes events in.
    pub lanes: u32,
}

statement! {
    /// Settings without which a commit may be lost.
    DurabilitySettings -> (Text, Text, Text) {
        "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')"
    }
}

statement! {
    /// Whether the database answers.
    One -> Bool { "SELECT " class: i32 as Integer; " = 1" }
}

impl PgStore {
    /// Connects to the database at `url`, with at most `pool_size` connections.
    ///
    /// The URL should set keepalives and `tcp_user_timeout` where the network can go silent.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the first connection cannot be made.
    pub fn connect(url: &str, pool_size: u32) -> Result<Self, StoreError> {
        let pool = Pool::connect(url, pool_size)?;
        let lane_bits =
            pool.run(|pg| schema::ingest_lanes::table.select(schema::ingest_lanes::lane_bits).first::<i16>(pg));
        let lane_bits = lane_bits.map_err(Failure::into_store_error)?;
        Ok(Self {
            shared: Arc::new(Shared {
                pool,
                ingest: IngestCache::new(lane_bits),
                groups: Groups::default(),
                beginnings: Beginnings::default(),
                reader: Reader::new(url),
            }),
        })
    }

    /// Brings the database at `url` up to date and answers the versions that were missing. Of several programs
    /// that try at once, one does it and the others wait.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], or [`StoreError::Internal`] with the migration that failed; it left no trace.
    pub fn migrate(url: &str) -> Result<Vec<String>, StoreError> {
        migration::migrate(url)
    }

    /// Refuses a database that forgets commits in a power cut, or whose events have lost an index.
    ///
    /// # Errors
    /// [`StoreError::Internal`] naming what is wrong.
    pub fn check_durability(&self) -> Result<(), StoreError> {
        let settings = self.shared.pool.run(|pg| DurabilitySettings {}.get_result::<(String, String, String)>(pg));
        let (fsync, full_page_writes, synchronous_commit) = settings.map_err(Failure::into_store_error)?;
        for (name, value) in [("fsync", &fsync), ("full_page_writes", &full_page_writes)] {
            if value != "on" {
                return Err(StoreError::Internal(format!(
                    "{name} is {value}: a power cut would lose what was committed"
                )));
            }
        }
        if !["on", "remote_write", "remote_apply"].contains(&synchronous_commit.as_str()) {
            let message = format!("synchronous_commit is {synchronous_commit}: a crash would lose what was committed");
            return Err(StoreError::Internal(message));
        }
        self.shared.pool.run(partition::find_unindexed).map_err(Failure::into_store_error)?.map_or(Ok(()), |name| {
            Err(StoreError::Internal(format!("events partition {name} lacks an index: events could be counted twice")))
        })
    }

    /// What the store is busy with; asks the database nothing.
    pub fn load(&self) -> Load {
        let (connections, idle_connections, connections_max) = self.shared.pool.counts();
        let (waiting_events, ingesting) = self.shared.groups.counts();
        let lanes = self.shared.ingest.lanes().count();
        Load { connections, idle_connections, connections_max, waiting_events, ingesting, lanes }
    }

    /// Whether the database answers within half a second and is as this program expects it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], [`StoreError::PoolExhausted`], or [`StoreError::Internal`] when migrations are missing.
    pub fn ping(&self) -> Result<(), StoreError> {
        let mut connection = self.shared.pool.take_within(PING_MAX)?;
        let applied = connection.attempt(|pg| {
            pg.transaction(|pg| {
                pg.batch_execute("SET LOCAL statement_timeout = '500ms'")?;
                One { class: 1 }.get_result::<bool>(pg)?;
                Ok(migration::applied_versions(pg)?)
            })
        });
        let (applied, expected) = (applied.map_err(Failure::into_store_error)?, migration::embedded_versions()?);
        // A newer program may have migrated further already.
        match expected.into_iter().find(|version| !applied.contains(version)) {
            Some(version) => Err(StoreError::Internal(format!("migration {version} has not been applied"))),
            None => Ok(()),
        }
    }
}

impl Store for PgStore {
    fn run(&self, scope: &Scope, work: &mut Work<'_>) -> Result<(), Error> {
        self.run_work(scope, work)
    }

    fn run_once(&self, scope: &Scope, claim: &Claim, work: &mut ClaimedWork<'_>) -> Result<(), Error> {
        self.run_claimed(scope, claim, work)
    }
}

impl KeyRing for PgStore {
    fn find_key(&self, prefix: &str) -> Result<Option<(ApiKey, OffsetDateTime)>, Error> {
        self.shared.pool.try_run(|pg| api_key::find_with_now(pg, prefix)).map_err(Failure::into_error)
    }

    fn list_organizations(&self) -> Result<Vec<OrganizationId>, Error> {
        use schema::organizations::dsl::{created_at, id, organizations};
        let ids = self.shared.pool.run(|pg| organizations.select(id).order((created_at, id)).load::<Uuid>(pg));
        Ok(ids.map_err(Failure::into_error)?.into_iter().map(OrganizationId::from).collect())
    }
}
