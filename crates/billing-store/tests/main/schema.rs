//! The schema as the catalogue of Postgres tells it.

use std::collections::BTreeMap;

use billing_store::PgStore;
use billing_store::testing::{
    TestStore, columns, empty_database, find_unindexed_partition, make_customers_schema, refusals, revert, versions,
};

use crate::sql::{execute, query};

/// What the set of customers makes: the tables of what customers own.
pub const CUSTOMER_OWNED: &[&str] = &[
    "audit_entries",
    "billing_due",
    "billing_records",
    "credit_entries",
    "credit_note_lines",
    "credit_notes",
    "credits",
    "customers",
    "event_arrivals",
    "event_corrections",
    "event_names",
    "events",
    "hot_buckets",
    "invoice_lines",
    "invoiced_hours",
    "invoices",
    "invoicing_counts",
    "lane_tokens",
    "messages",
    "payments",
    "rollup_versions",
    "subscription_counts",
    "subscription_versions",
    "subscriptions",
    "usage_alert_firings",
    "usage_alert_headroom",
    "usage_alert_looks",
    "usage_alert_marks",
    "usage_rollup",
];

/// Those of them that are not one customer's.
const WITHOUT_CUSTOMER: &[&str] =
    &["event_arrivals", "event_names", "invoiced_hours", "lane_tokens", "subscription_counts"];

/// Those tables of the catalogue's set that name customers: what must be unique across them, and who a version is made for.
const NAMING_CUSTOMERS: &[&str] = &[
    "customer_emails",
    "feed_entries",
    "invoice_numbers",
    "lane_reservations",
    "plan_version_targets",
    "usage_alerts",
];

/// What a trigger raises as a constraint, and no table declares.
const RAISED: &[&str] = &["credit_note_lines_left", "payments_of_voided_invoice"];

/// Unique constraints that only a bug of this program can run into, because it makes the keys up itself.
const INTERNAL: &[&str] = &[
    "approvals_pkey",
    "audit_entries_pkey",
    "billing_due_pkey",
    "billing_records_pkey",
    "books_audits_pkey",
    "catalog_versions_pkey",
    "catalogue_position_pkey",
    "components_metric_id_key",
    "components_pkey",
    "credit_entries_pkey",
    "credit_note_lines_pkey",
    "credit_notes_pkey",
    "credits_pkey",
    "event_arrivals_pkey",
    "event_corrections_pkey",
    "event_minutes_pkey",
    "event_names_pkey",
    "event_watches_pkey",
    "features_pkey",
    "idempotency_keys_pkey",
    "ingest_versions_pkey",
    "ingest_key_ranges_pkey",
    "invoice_counters_pkey",
    "invoice_lines_pkey",
    "invoice_numbers_pkey",
    "invoiced_hours_pkey",
    "invoices_pkey",
    "invoicing_counts_pkey",
    "jobs_pkey",
    "key_pepper_pkey",
    "lane_reservations_pkey",
    "lane_tokens_pkey",
    "lanes_pkey",
    "lanes_schema_name_key",
    "memberships_pkey",
    "feed_entries_message_id_key",
    "feed_entries_pkey",
    "message_counters_pkey",
    "messages_pkey",
    "organization_audit_entries_pkey",
    "organization_messages_pkey",
    "passed_events_pkey",
    "metric_rollups_pkey",
    "metrics_pkey",
    "nodes_pkey",
    "invoices_replaced_by_key",
    "invoices_replaces_key",
    "payments_credit_note_id_key",
    "payments_pkey",
    "hot_buckets_pkey",
    "plan_version_features_pkey",
    "plan_version_targets_pkey",
    "plan_versions_pkey",
    "plans_pkey",
    "recurring_charges_name_key",
    "recurring_charges_pkey",
    "returned_numbers_pkey",
    "rollup_versions_pkey",
    "sign_in_attempts_pkey",
    "subscription_counts_pkey",
    "subscription_versions_pkey",
    "subscriptions_pkey",
    "test_clocks_pkey",
    "uncounted_events_pkey",
    "usage_rollup_pkey",
    "usage_alert_firings_pkey",
    "usage_alert_headroom_pkey",
    "usage_alert_looks_pkey",
    "usage_alert_marks_pkey",
    "usage_alerts_pkey",
    "user_identities_issuer_key",
    "user_identities_pkey",
    "user_invitations_email_key",
    "user_invitations_pkey",
    "user_sessions_pkey",
    "users_email_key",
    "users_pkey",
    "webhook_attempts_pkey",
    "webhook_endpoints_pkey",
    "webhook_pending_pkey",
];

fn assert_none(store: &TestStore, what: &str, sql: &'static str) {
    let found = query(store.url(), sql);
    assert!(found.is_empty(), "{what}: {found:#?}");
}

/// Everything that migrations can make, as Postgres would say it again: tables, columns, constraints, indexes, sequences, views,
/// functions, triggers, comments and settings, of one schema.
fn schema_of(url: &str, schema: &str) -> Vec<String> {
    let description = format!(
        "WITH relation AS (SELECT * FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relname NOT LIKE '\\_\\_diesel%'),
            function AS (
                SELECT oid FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace
                    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = pg_proc.oid AND d.deptype = 'e')
            )
        SELECT concat_ws(' ', relkind, relname, reloptions::text, obj_description(oid, 'pg_class')) AS value FROM relation
        UNION ALL
        SELECT concat_ws(' ', relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated,
            attcollation::regcollation, pg_get_expr(adbin, adrelid), col_description(attrelid, attnum))
        FROM relation JOIN pg_attribute ON attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        UNION ALL
        SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(pg_constraint.oid))
        FROM pg_constraint JOIN relation ON conrelid = relation.oid
        UNION ALL
        SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN relation ON indrelid = relation.oid
        UNION ALL
        SELECT pg_get_viewdef(oid) FROM relation WHERE relkind = 'v'
        UNION ALL
        SELECT pg_get_triggerdef(pg_trigger.oid) FROM pg_trigger JOIN relation ON tgrelid = relation.oid WHERE NOT tgisinternal
        UNION ALL
        SELECT pg_get_functiondef(oid) || coalesce(obj_description(oid, 'pg_proc'), '') FROM function
        ORDER BY 1"
    );
    query(url, &description)
}

#[test]
fn migrates_up_down_and_up_again() {
    let database = empty_database();
    let applied = PgStore::migrate(database.url()).expect("up");
    assert_eq!(applied, versions());
    let describe = || [schema_of(database.url(), "public"), schema_of(database.url(), "custom_metric")];
    let made = describe();
    assert_eq!(PgStore::migrate(database.url()).expect("nothing to do"), Vec::<String>::new());
    let mut reverted = revert(database.url()).expect("down");
    reverted.reverse();
    assert_eq!(reverted, applied);
    assert_eq!(schema_of(database.url(), "public"), Vec::<String>::new(), "nothing is left behind");
    let schemas = "SELECT nspname::text AS value FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)'";
    assert_eq!(query(database.url(), schemas), ["public"]);
    assert_eq!(PgStore::migrate(database.url()).expect("up again"), applied);
    assert_eq!(describe(), made, "the same again");
}

#[test]
fn what_customers_own_can_stand_in_several_schemas_beside_one_catalogue() {
    let database = empty_database();
    let applied = PgStore::migrate(database.url()).expect("up");
    let before = schema_of(database.url(), "public");
    execute(database.url(), "SELECT create_events_partition('2024-02-01 00:00+00')").expect("made");
    let in_schema = make_customers_schema(database.url(), "lane_00").expect("made");
    assert!(!in_schema.is_empty() && applied.ends_with(&in_schema), "its own memory of its own set: {in_schema:?}");
    let tables = "SELECT relname::text AS value FROM pg_class
        WHERE relnamespace = 'lane_00'::regnamespace AND relkind IN ('r', 'p') AND relname !~ '^__diesel' ORDER BY 1";
    assert_eq!(query(database.url(), tables), CUSTOMER_OWNED, "all that customers own, and no other table");
    let month = "SET search_path = lane_00, public; SELECT create_events_partition('2024-02-01 00:00+00')";
    execute(database.url(), month).expect("made");
    let months =
        "SELECT inhrelid::regclass::text AS value FROM pg_inherits WHERE inhparent = 'lane_00.events'::regclass";
    assert_eq!(query(database.url(), months), ["lane_00.events_2024_02"], "beside that of the other schema");
    let astray = "SELECT conname::text AS value FROM pg_constraint key
        JOIN pg_class source ON source.oid = conrelid JOIN pg_class target ON target.oid = confrelid
        WHERE key.contype = 'f' AND source.relnamespace <> target.relnamespace
            AND (source.relnamespace <> 'lane_00'::regnamespace OR target.relname <> 'organizations')";
    assert_eq!(query(database.url(), astray), [""; 0], "references lead from customers to the catalogue");
    execute(database.url(), "DROP TABLE events_2024_02").expect("dropped");
    assert_eq!(schema_of(database.url(), "public"), before, "the other schema is as it was");
}

#[test]
fn every_version_is_dated_and_in_one_set() {
    let versions = versions();
    let mut different = versions.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), versions.len(), "the sets share their memory of versions: {versions:?}");
    for version in versions {
        // Diesel leaves the hyphens of 2026-11-23-000000 out.
        assert!(version.len() == 14 && version.bytes().all(|byte| byte.is_ascii_digit()), "{version} is not dated");
    }
}

#[test]
fn a_database_of_before_the_first_release_is_refused() {
    let database = empty_database();
    let history =
        "CREATE TABLE __diesel_schema_migrations (version text PRIMARY KEY, run_on timestamp NOT NULL DEFAULT now());
        INSERT INTO __diesel_schema_migrations VALUES ('0001'), ('0002'); CREATE TABLE organizations (id uuid)";
    execute(database.url(), history).expect("made");
    let refused = PgStore::migrate(database.url()).expect_err("other tables").to_string();
    assert!(refused.contains("before the first release") && refused.contains("pg_dump"), "{refused}");
    let tables = "SELECT relname::text AS value FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1";
    assert_eq!(query(database.url(), tables), ["__diesel_schema_migrations", "organizations"], "left as it was");
}

#[test]
fn migrates_once_when_several_try() {
    let database = empty_database();
    let applied: usize = std::thread::scope(|threads| {
        let tries: Vec<_> = (0..3).map(|_| threads.spawn(|| PgStore::migrate(database.url()).expect("up"))).collect();
        tries.into_iter().map(|each| each.join().expect("a thread").len()).sum()
    });
    assert_eq!(applied, versions().len());
}

#[test]
fn is_ready_when_migrated() {
    TestStore::in_one_lane().ping().expect("ready");
    let database = empty_database();
    PgStore::migrate(database.url()).expect("up");
    let store = PgStore::connect(database.url(), 1).expect("connected");
    revert(database.url()).expect("down");
    assert!(store.ping().is_err(), "migrations are missing");
}

#[test]
fn every_foreign_key_is_indexed() {
    let store = TestStore::in_one_lane();
    assert_none(
        &store,
        "foreign keys without an index that starts with their columns",
        "SELECT conname::text AS value FROM pg_constraint key
        WHERE key.contype = 'f' AND NOT EXISTS (
            SELECT FROM pg_index i
            WHERE i.indrelid = key.conrelid AND i.indpred IS NULL
                AND (i.indkey::int2[])[0:cardinality(key.conkey) - 1] @> key.conkey
        )",
    );
}

#[test]
fn what_customers_own_can_be_sent_elsewhere() {
    let store = TestStore::in_one_lane();
    execute(store.url(), "SELECT create_events_partition('2024-02-01 00:00+00')").expect("made");
    assert_none(
        &store,
        "tables whose rows nothing tells apart",
        "SELECT relname::text AS value FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname !~ '^__diesel' AND CASE relreplident
            WHEN 'd' THEN NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)
            WHEN 'i' THEN NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisreplident)
            ELSE true
        END",
    );
}

#[test]
fn every_table_and_function_has_a_comment() {
    let store = TestStore::in_one_lane();
    assert_none(
        &store,
        "tables and functions without a comment",
        "SELECT relname::text AS value FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
            AND relname <> '__diesel_schema_migrations' AND obj_description(oid, 'pg_class') IS NULL
        UNION ALL
        SELECT proname::text FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = pg_proc.oid AND d.deptype = 'e')",
    );
}

#[test]
fn every_table_is_of_a_known_kind() {
    let store = TestStore::in_one_lane();
    let with_customer_key = query(
        store.url(),
        "SELECT relname::text AS value FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND attname = 'customer_key'
        ORDER BY 1",
    );
    let owned = CUSTOMER_OWNED.iter().filter(|table| !WITHOUT_CUSTOMER.contains(table));
    let mut known: Vec<&str> = owned.chain(NAMING_CUSTOMERS).copied().collect();
    known.sort_unstable();
    assert_eq!(with_customer_key, known);
}

/// `table column, column, ..` of every primary key, unique index, exclusion constraint and foreign key.
fn keys(store: &TestStore, kind: &'static str) -> Vec<(String, String)> {
    let rows = query(store.url(), kind);
    rows.iter().filter_map(|row| row.split_once(' ')).map(|(table, rest)| (table.to_owned(), rest.to_owned())).collect()
}

#[test]
fn what_customers_own_lives_under_their_key() {
    let store = TestStore::in_one_lane();
    let primary = keys(
        &store,
        "SELECT conrelid::regclass || ' ' || attname AS value FROM pg_constraint
        JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
        WHERE contype = 'p' AND connamespace = 'public'::regnamespace",
    );
    let primary: BTreeMap<String, String> = primary.into_iter().collect();
    for table in CUSTOMER_OWNED.iter().filter(|table| **table != "events" && !WITHOUT_CUSTOMER.contains(table)) {
        assert_eq!(
            primary.get(*table).map(String::as_str),
            Some("customer_key"),
            "first column of {table}'s primary key"
        );
    }
    // Everything unique, and every reference, contains the key; so does the unique index of an events partition.
    execute(store.url(), "SELECT create_events_partition('2024-02-01 00:00+00')").expect("made");
    let unique = keys(
        &store,
        "SELECT indrelid::regclass || ' ' || pg_get_indexdef(indexrelid) AS value FROM pg_index
        WHERE indisunique OR indisexclusion",
    );
    let references = keys(
        &store,
        "SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) AS value FROM pg_constraint WHERE contype = 'f'",
    );
    let owned = |table: &str| CUSTOMER_OWNED.contains(&table) || table.starts_with("events_");
    let mut seen = 0;
    let of_customers = |(table, _): &&(String, String)| owned(table) && !WITHOUT_CUSTOMER.contains(&table.as_str());
    for (table, definition) in unique.iter().chain(&references).filter(of_customers) {
        assert!(definition.contains("customer_key"), "{table}: {definition}");
        seen += 1;
    }
    assert!(seen > CUSTOMER_OWNED.len(), "the events partition is among them");
    for (table, definition) in references.iter().filter(|(table, _)| !owned(table)) {
        let target = CUSTOMER_OWNED.iter().find(|target| definition.contains(&format!("REFERENCES {target}(")));
        assert_eq!(target, None, "{table} is catalogue and refers to what a customer owns");
    }
    assert_none(
        &store,
        "customers' tables without organization_id",
        "SELECT relname::text AS value FROM pg_class
        JOIN pg_attribute key ON key.attrelid = pg_class.oid AND key.attname = 'customer_key'
        WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace AND NOT EXISTS (
            SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'organization_id' AND attnotnull
        )",
    );
}

#[test]
fn every_unique_constraint_has_a_meaning() {
    let store = TestStore::in_one_lane();
    let constraints = query(
        store.url(),
        "SELECT conname::text AS value FROM pg_constraint
        WHERE contype IN ('p', 'u', 'x') AND connamespace = 'public'::regnamespace
            AND conname <> '__diesel_schema_migrations_pkey'
        ORDER BY conname COLLATE \"C\"",
    );
    let refusals = refusals();
    let declared = refusals.iter().map(|(name, _)| *name).filter(|name| !RAISED.contains(name));
    let mut known: Vec<&str> = declared.chain(INTERNAL.iter().copied()).collect();
    known.sort_unstable();
    assert_eq!(constraints, known, "map a new constraint to a refusal, or list it as internal");
}

#[test]
fn diesel_sees_the_tables_as_they_are() {
    let store = TestStore::in_one_lane();
    let live = query(
        store.url(),
        "SELECT relname || '.' || attname AS value FROM pg_class
        JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
            AND relname <> '__diesel_schema_migrations'
        ORDER BY relname COLLATE \"C\", attnum",
    );
    assert_eq!(columns(), live);
}

#[test]
fn numbers_have_no_limited_precision_and_times_have_a_zone() {
    let store = TestStore::in_one_lane();
    assert_none(
        &store,
        "columns of the wrong type",
        "SELECT table_name || '.' || column_name AS value FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name <> '__diesel_schema_migrations' AND (
            numeric_precision IS NOT NULL AND data_type = 'numeric'
            OR data_type IN ('real', 'double precision', 'money', 'timestamp without time zone', 'character varying')
        )",
    );
}

#[test]
fn refuses_to_serve_without_durability_or_indexes() {
    // The throw-away cluster of the tests has fsync off.
    let store = TestStore::in_one_lane();
    let error = store.check_durability().expect_err("not durable").to_string();
    assert!(error.contains("fsync"), "{error}");
    execute(store.url(), "SELECT create_events_partition('2024-02-01 00:00+00')").expect("made");
    assert_eq!(find_unindexed_partition(&store), None);
    for index in ["DROP INDEX events_2024_02_id_hash_key", "DROP INDEX events_customer_key_idx"] {
        execute(store.url(), index).expect("dropped");
        assert_eq!(find_unindexed_partition(&store).as_deref(), Some("events_2024_02"));
    }
}
