//! A database of its own for every test, in a throw-away cluster that all tests of a process share.

mod cluster;
mod fingerprint;
mod statements;

use std::ops::Deref;

use billing_domain::custom_sql::{CustomFailure, CustomUsageRequest};
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::idempotency::Answer;
use billing_domain::{Error, Refusal, StoreError};
use diesel::connection::SimpleConnection;
use diesel::debug_query;
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};
use postgres_local::testing::TestDatabase;
use uuid::Uuid;

use crate::pg::error::Failure;
use crate::pg::migration;
use crate::pg::node::Node;
use crate::pg::schema::metric_rollups;
use crate::reservation::{Holder, KeyReserved, reserve_credit_note_number, reserve_email, reserve_key, write_token};
use crate::{PgStore, custom_sql};

pub use self::cluster::ClusterDatabase;
pub use self::fingerprint::fingerprint;
pub use self::statements::{count_statements, listen_to_statements, statements_heard, statements_sent};

/// Most rows of roll-ups that one transaction writes.
pub const ROLLUP_ROWS_MAX: usize = crate::rollup::ROWS_PER_TRANSACTION_MAX;

/// Changes whenever a migration does.
const MIGRATIONS_HASH: &str = env!("MIGRATIONS_HASH");
/// Connections of one test's store: enough for the threads of a test that races.
const POOL_SIZE: u32 = 12;

/// A store on an empty, migrated database that goes away with it.
pub struct TestStore {
    // In the order of dropping: connections before their database.
    store: PgStore,
    database: Database,
}

/// Where the store's tables are.
enum Database {
    /// In the throw-away cluster.
    Local(TestDatabase),
    OnCluster(ClusterDatabase),
}

impl TestStore {
    /// A store with nothing in it.
    ///
    /// # Panics
    /// When no Postgres is installed (the message says how to get one) or a migration fails.
    ///
    /// With as many lanes as `BILLING_TEST_LANES` says, if it does.
    #[expect(clippy::new_without_default, reason = "it starts a database")]
    pub fn new() -> Self {
        let lanes = std::env::var("BILLING_TEST_LANES").ok().and_then(|lanes| lanes.parse().ok());
        Self::with_lanes(lanes.unwrap_or(1))
    }

    /// A store with nothing in it and one lane, whatever the environment says: for tests that look at the tables of one, or at how many
    /// statements it takes to ask one.
    ///
    /// # Panics
    /// As [`TestStore::new`].
    pub fn in_one_lane() -> Self {
        Self::with_lanes(1)
    }

    /// A store whose customers are divided into lanes. In each of several the service works as a role that has no rights on any
    /// other. Several are on the Citus cluster of `BILLING_TEST_CLUSTER`, if that names one, or on as many servers as
    /// `BILLING_TEST_SERVERS` says: there, as the service itself.
    ///
    /// # Panics
    /// As [`TestStore::new`].
    pub fn with_lanes(lanes: u16) -> Self {
        if lanes > 1
            && let Ok(cluster) = std::env::var(cluster::CLUSTER)
        {
            return Self::on_cluster(&cluster, lanes);
        }
        if lanes > 1
            && let Some(servers) = std::env::var(cluster::SERVERS).ok().and_then(|servers| servers.parse().ok())
        {
            let database = ClusterDatabase::on_own_servers(lanes, servers).unwrap_or_else(|error| panic!("{error}"));
            return Self::over(Database::OnCluster(database));
        }
        let migrate = |url: &str| {
            PgStore::migrate_into_lanes(url, lanes).map_err(|error| error.to_string())?;
            if lanes == 1 { Ok(()) } else { wall_off(url).map_err(|error| error.to_string()) }
        };
        let name = if lanes == 1 { MIGRATIONS_HASH.to_owned() } else { format!("{MIGRATIONS_HASH}{lanes}{WALL_OFF}") };
        let database = postgres_local::testing::database(&name, &migrate);
        let database = database.unwrap_or_else(|error| panic!("{error}"));
        Self::over(Database::Local(database))
    }

    /// A store with lanes on a Citus cluster, of which `cluster` is the URL of a database.
    ///
    /// # Panics
    /// When a server does not answer or a migration fails.
    pub fn on_cluster(cluster: &str, lanes: u16) -> Self {
        let database = ClusterDatabase::new(cluster).unwrap_or_else(|error| panic!("{cluster}: {error}"));
        PgStore::migrate_into_lanes(database.url(), lanes).unwrap_or_else(|error| panic!("{error}"));
        Self::over(Database::OnCluster(database))
    }

    fn over(database: Database) -> Self {
        let store = PgStore::connect(database.url(), POOL_SIZE).unwrap_or_else(|error| panic!("{error}"));
        Self { store, database }
    }

    /// Runs statements in every lane, wherever that is.
    ///
    /// # Panics
    /// With what a server says.
    pub fn in_every_lane(&self, statements: &str) {
        for lane in self.store.shared.lanes.all() {
            let mut pg = PgConnection::establish(&lane.place.url(self.url())).unwrap_or_else(|error| panic!("{error}"));
            let enter = crate::pg::place::search_path(&lane.schema);
            pg.batch_execute(&format!("{enter}; {statements}")).unwrap_or_else(|error| panic!("{statements}: {error}"));
        }
    }

    /// Where the database is, for connections of the test's own.
    pub fn url(&self) -> &str {
        self.database.url()
    }

    /// A connection of the test's own, to which the tables of all lanes are one each, to be read.
    ///
    /// # Panics
    /// When the database does not answer.
    pub fn connection(&self) -> PgConnection {
        let mut pg = PgConnection::establish(self.url()).unwrap_or_else(|error| panic!("{error}"));
        if self.store.shared.lanes.only().is_none() {
            pg.batch_execute(VIEW_OVER_LANES).unwrap_or_else(|error| panic!("{error}"));
        }
        pg
    }

    /// What makes a connection see one lane after the other, before each of which statements are run that change what customers own.
    pub fn search_paths(&self) -> Vec<String> {
        self.store.shared.lanes.all().map(|lane| crate::pg::place::search_path(&lane.schema)).collect()
    }

    /// A clone of the store, to be given away.
    pub fn store(&self) -> PgStore {
        self.store.clone()
    }
}

impl Database {
    fn url(&self) -> &str {
        match self {
            Self::Local(database) => database.url(),
            Self::OnCluster(database) => database.url(),
        }
    }
}

impl Deref for TestStore {
    type Target = PgStore;

    fn deref(&self) -> &PgStore {
        &self.store
    }
}

/// Makes a view of this connection's own for each table of what customers own, over all lanes.
const VIEW_OVER_LANES: &str = "
    DO $$
    DECLARE
        owned text;
    BEGIN
        FOR owned IN
            SELECT relname FROM pg_class
            WHERE relnamespace = 'lane_00'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND relname !~ '^__diesel'
        LOOP
            EXECUTE format('CREATE TEMP VIEW %I AS %s', owned,
                (SELECT string_agg(format('SELECT * FROM %I.%I', schema_name, owned), ' UNION ALL ' ORDER BY number) FROM lanes));
        END LOOP;
    END
    $$";

/// Gives each lane to a role of its own, which may read the catalogue, write what customers' transactions write of it, and touch
/// nothing of another lane. Roles belong to the whole cluster,
/// so databases share them.
const WALL_OFF: &str = "
    DO $$
    DECLARE
        lane record;
        own record;
        owner text;
    BEGIN
        FOR lane IN SELECT * FROM lanes LOOP
            owner := 'billing_test_' || lane.schema_name;
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', owner);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
            EXECUTE format('GRANT USAGE ON SCHEMA public, custom_metric TO %I', owner);
            EXECUTE format('GRANT SELECT, REFERENCES ON ALL TABLES IN SCHEMA public TO %I', owner);
            -- All that a customer's transaction writes beside its lane: the table in docs/decisions.md.
            EXECUTE format('GRANT INSERT, DELETE ON customer_emails TO %I', owner);
            EXECUTE format('GRANT INSERT, UPDATE ON idempotency_keys, invoice_counters, catalog_versions, ingest_versions TO %I', owner);
            EXECUTE format('GRANT INSERT ON invoice_numbers, metric_rollups TO %I', owner);
            EXECUTE format('GRANT UPDATE (subscription_filter_keys) ON organizations TO %I', owner);
            EXECUTE format('ALTER SCHEMA %I OWNER TO %I', lane.schema_name, owner);
            FOR own IN SELECT oid::regclass AS name FROM pg_class WHERE relnamespace = lane.schema_name::regnamespace AND relkind IN ('r', 'p', 'v') LOOP
                EXECUTE format('ALTER TABLE %s OWNER TO %I', own.name, owner);
            END LOOP;
            FOR own IN SELECT oid::regprocedure AS name FROM pg_proc WHERE pronamespace = lane.schema_name::regnamespace LOOP
                EXECUTE format('ALTER FUNCTION %s OWNER TO %I', own.name, owner);
            END LOOP;
            UPDATE lanes SET role_name = owner WHERE number = lane.number;
        END LOOP;
    END
    $$";

fn wall_off(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    Ok(PgConnection::establish(url)?.batch_execute(WALL_OFF)?)
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

/// Makes a schema with what customers own beside the catalogue that `public` has, and answers the versions.
///
/// # Errors
/// [`StoreError::Internal`] with the migration that failed.
pub fn make_customers_schema(url: &str, name: &str) -> Result<Vec<String>, StoreError> {
    migration::make_customers_schema(url, name)
}

/// The versions of all migrations, in the order in which they are applied.
///
/// # Panics
/// When the migrations that are compiled in cannot be read.
pub fn versions() -> Vec<String> {
    migration::embedded_versions().unwrap_or_else(|error| panic!("{error}"))
}

/// The constraints that callers can run into, with what each refuses.
pub fn refusals() -> Vec<(&'static str, Refusal)> {
    crate::pg::error::REFUSALS.to_vec()
}

/// Leaves the database at `url` as the server's own cleaning would: how many rows each table has is known.
///
/// # Panics
/// When the database cannot be reached.
pub fn vacuum(url: &str) {
    let mut pg = PgConnection::establish(url).unwrap_or_else(|error| panic!("{error}"));
    pg.batch_execute("VACUUM ANALYZE").unwrap_or_else(|error| panic!("{error}"));
}

/// A partition of the events that lacks an index, if there is one.
///
/// # Panics
/// When the database does not answer.
pub fn find_unindexed_partition(store: &PgStore) -> Option<String> {
    let found = store.shared.lanes.at(0).pool.run(crate::pg::partition::find_unindexed);
    found.unwrap_or_else(|failure| panic!("{failure:?}"))
}

/// Fills in a few customers' roll-ups as [`EventIngest::catch_up`](billing_domain::store::EventIngest::catch_up) does, with so
/// many events at most under one lock; whether there is more to do.
///
/// # Errors
/// When the database does not answer.
pub fn fill_in(store: &PgStore, events_per_lock: i64) -> Result<bool, Error> {
    store.shared.fill_in(events_per_lock)
}

/// The deltas of a hot bucket as the store writes them when it has read them.
///
/// # Errors
/// When they are not deltas.
pub fn deltas_written_again(deltas: &str) -> Result<String, Error> {
    crate::rollup::hot_bucket::written_again(deltas)
}

/// Puts a lane that nobody is in on a node that was added.
///
/// # Errors
/// Those of the two databases.
pub fn put_on_node(url: &str, number: u16, node: &str) -> Result<(), StoreError> {
    let mut home = PgConnection::establish(url).map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let put = |home: &mut PgConnection| -> Result<(), Failure> {
        use crate::pg::schema::{lanes, nodes};
        let node: Node = nodes::table.find(node).first(home)?;
        let schema: String = lanes::table.find(number as i16).select(lanes::schema_name).first(home)?;
        migration::make_lane(&node.place().url(url), &schema, custom_sql::prepare)?;
        home.batch_execute(&format!("DROP SCHEMA {schema} CASCADE"))?;
        let target = lanes::table.find(number as i16);
        diesel::update(target).set(lanes::node_name.eq(&node.name)).execute(home)?;
        Ok(())
    };
    put(&mut home).map_err(Failure::into_store_error)
}

/// Looks for something in a lane as a transaction does that may find the lane somewhere else: with the schema that is worked in, until it is found or
/// nothing more is tried.
///
/// # Errors
/// When it is not found where the lane is, or the database does not answer.
pub fn look_in_lane(store: &PgStore, number: usize, mut is_found: impl FnMut(&str) -> bool) -> Result<(), Error> {
    let lanes = &store.shared.lanes;
    let look = |lane: &crate::lanes::Lane| match is_found(&lane.schema) {
        true => Ok(()),
        false => Err(Failure::Missing("relation \"customers\" does not exist".to_owned())),
    };
    lanes.with(lanes.at(number), look).map_err(Failure::into_error)
}

/// Reserves an address, the next number of a credit note and an idempotency key as a transaction of a lane on a node does, and stops
/// there: the token that the transaction would write into its lane, and the number.
///
/// # Errors
/// What home says.
pub fn reserve(
    store: &PgStore,
    organization: OrganizationId,
    customer: CustomerKey,
    (email, key): (&str, &str),
) -> Result<(Uuid, i64), Error> {
    let holder = Holder::new(store.shared.lanes.of(customer), organization);
    let reserved = store.shared.lanes.home.transact(|pg| {
        reserve_email(pg, &holder, customer.uuid(), email)?;
        let number = reserve_credit_note_number(pg, &holder)?;
        match reserve_key(pg, &holder, key, &[1; 32])? {
            KeyReserved::Taken => Ok((holder.token, number)),
            _ => Err(Error::from(Refusal::IdempotencyKeyInUse).into()),
        }
    });
    reserved.map_err(Failure::into_error)
}

/// Ends the transaction that has reserved under a token: writes it into the lane of the customer with an answer, and commits.
///
/// # Errors
/// When it was given up meanwhile.
pub fn commit_reserved(store: &PgStore, customer: CustomerKey, token: Uuid, answer: &Answer) -> Result<(), Error> {
    let lane = store.shared.lanes.of(customer);
    lane.pool.transact(|pg| write_token(pg, token, Some(answer))).map_err(Failure::into_error)
}

/// Settles or gives back what was reserved so many seconds ago; how many transactions that was.
///
/// # Errors
/// When home does not answer.
pub fn resolve_reservations(store: &PgStore, age_seconds: u32) -> Result<usize, Error> {
    store.shared.resolve_old(Some(age_seconds)).map_err(Failure::into_error)
}

/// How many roll-ups are younger than their events and not filled in.
///
/// # Panics
/// When the database does not answer.
pub fn incomplete_rollups(store: &PgStore) -> i64 {
    let incomplete = sql::<Bool>("rolled_up_from > '-infinity'");
    let count = store.shared.pool.run(|pg| metric_rollups::table.filter(incomplete.clone()).count().get_result(pg));
    count.unwrap_or_else(|failure| panic!("{failure:?}"))
}

/// `table.column` of every column as Diesel sees it, by table.
#[expect(clippy::too_many_lines, reason = "a list of tables")]
pub fn columns() -> Vec<String> {
    macro_rules! selects {
        ($($table:ident,)*) => {
            [$((stringify!($table), debug_query::<Pg, _>(&crate::pg::schema::$table::table.select(crate::pg::schema::$table::all_columns)).to_string()),)*]
        };
    }
    let selects = selects![
        api_keys,
        approvals,
        audit_entries,
        billing_due,
        billing_records,
        books_audits,
        catalog_versions,
        catalogue_position,
        components,
        credit_entries,
        credit_note_lines,
        credit_notes,
        credits,
        currencies,
        customer_emails,
        customers,
        event_arrivals,
        event_corrections,
        event_minutes,
        event_names,
        event_watches,
        events,
        features,
        feed_entries,
        hot_buckets,
        idempotency_keys,
        ingest_key_ranges,
        ingest_versions,
        invoice_counters,
        invoice_lines,
        invoice_numbers,
        invoiced_hours,
        invoices,
        invoicing_counts,
        jobs,
        key_pepper,
        lane_reservations,
        lane_tokens,
        lanes,
        memberships,
        message_counters,
        messages,
        metric_rollups,
        metrics,
        nodes,
        organization_audit_entries,
        organization_messages,
        organizations,
        passed_events,
        payments,
        plan_version_features,
        plan_version_targets,
        plan_versions,
        plans,
        recurring_charges,
        returned_numbers,
        rollup_versions,
        sign_in_attempts,
        subscription_counts,
        subscription_versions,
        subscriptions,
        test_clocks,
        uncounted_events,
        usage_alert_firings,
        usage_alert_headroom,
        usage_alert_looks,
        usage_alert_marks,
        usage_alerts,
        usage_rollup,
        user_identities,
        user_invitations,
        user_sessions,
        users,
        webhook_attempts,
        webhook_endpoints,
        webhook_pending,
    ];
    let mut columns = Vec::new();
    for (table, select) in selects {
        // SELECT "table"."column", .. FROM "table"
        let prefix = format!("\"{table}\".\"");
        let names = select.split(&prefix).skip(1).filter_map(|rest| rest.split('"').next());
        columns.extend(names.map(|column| format!("{table}.{column}")));
    }
    columns
}

/// The SQL that a custom metric's request becomes, with its parameters as `$n`.
pub fn printed_custom_sql(organization: OrganizationId, request: &CustomUsageRequest) -> String {
    custom_sql::print(organization.uuid(), request).sql
}

/// Runs statements as custom metrics are run: each statement, whether it is expected to be allowed, and the one text that
/// it answers as `value`, or the reason why it was refused.
pub fn as_custom_metric<'s>(
    store: &PgStore,
    statements: &[(&'s str, bool)],
) -> Vec<(&'s str, bool, Result<String, String>)> {
    let run = |sql: &str| {
        let text = store.shared.lanes.at(0).reader.run(Uuid::nil(), |pg| {
            #[derive(QueryableByName)]
            struct Row {
                #[diesel(sql_type = Text)]
                value: String,
            }
            if !sql.starts_with("SELECT") {
                return Ok(diesel::sql_query(sql).execute(pg)?.to_string());
            }
            Ok(diesel::sql_query(sql).get_result::<Row>(pg)?.value)
        });
        text.map_err(|failure| format!("{failure:?}"))
    };
    statements.iter().map(|(sql, is_allowed)| (*sql, *is_allowed, run(sql))).collect()
}

/// What a statement that fails where custom metrics run would say of its metric.
///
/// # Errors
/// The store's own troubles, as text.
///
/// # Panics
/// When it does not fail.
pub fn custom_failure(store: &PgStore, sql: &str) -> Result<CustomFailure, String> {
    let answer = store.shared.lanes.at(0).reader.run(Uuid::nil(), |pg| Ok(diesel::sql_query(sql).execute(pg)?));
    let Err(failure) = answer else { panic!("{sql} should fail") };
    custom_sql::failure_of(failure).map_err(|failure| format!("{failure:?}"))
}
