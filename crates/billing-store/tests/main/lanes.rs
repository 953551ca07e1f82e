//! Customers in several lanes: each with all that it owns in one schema, and nothing that looks into another.

use billing_domain::store::{PageRequest, Scope, Store};
use billing_domain::testing::contract::{Harness, all};
use billing_store::PgStore;
use billing_store::testing::{TestStore, empty_database, versions};

use crate::sql::{execute, query};

/// A database of four lanes in which the cases of the contract have left customers.
fn inhabited() -> TestStore {
    let store = TestStore::with_lanes(4);
    let harness = Harness { store: &*store, ingest: &*store, keys: &*store, queue: &*store, answers: &*store };
    for (name, case) in all() {
        if name.starts_with("customer::") || name.starts_with("invoice::") || name.starts_with("event::") {
            case(&harness);
        }
    }
    store
}

#[test]
fn every_customer_is_in_its_lane() {
    let store = inhabited();
    let lanes = store.lanes().expect("lanes");
    assert_eq!(
        lanes.iter().map(|lane| lane.schema.as_str()).collect::<Vec<_>>(),
        ["lane_00", "lane_01", "lane_02", "lane_03"]
    );
    assert!(lanes.iter().all(|lane| lane.customers > 3 && lane.bytes > 0), "all of them are used: {lanes:?}");
    assert_eq!(store.check_lanes(&mut |_| {}), Ok(Vec::new()));

    let moved = "INSERT INTO lane_02.customers SELECT * FROM lane_00.customers ORDER BY customer_key LIMIT 1";
    execute(store.url(), moved).expect("moved");
    let faults = store.check_lanes(&mut |_| {}).expect("a check");
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("lane 2: customers has rows of customers of other lanes"), "{faults:?}");

    let unmigrated = "DELETE FROM lane_01.__diesel_schema_migrations WHERE version = (SELECT max(version) FROM lane_01.__diesel_schema_migrations)";
    execute(store.url(), unmigrated).expect("gone");
    let faults = store.check_lanes(&mut |_| {}).expect("a check");
    assert!(faults.iter().any(|fault| fault.starts_with("lane 1: migration")), "{faults:?}");
    assert!(store.ping().is_err(), "and nothing is served");
}

#[test]
fn a_lane_knows_no_other() {
    let store = TestStore::with_lanes(4);
    let as_lane = |sql: &str| {
        execute(store.url(), &format!("SET ROLE billing_test_lane_00; SET search_path = lane_00, public; {sql}"))
    };
    #[rustfmt::skip]
    let cases = [
        // what,                                             refused,  why
        ("SELECT FROM customers",                            None,     "its own"),
        ("SELECT FROM organizations",                        None,     "the catalogue"),
        ("INSERT INTO invoice_counters SELECT id, 1 FROM organizations", None, "what spans customers"),
        ("SELECT create_events_partition('2024-02-01 00:00+00')", None, "a month of its own"),
        ("SELECT FROM lane_01.customers",                    Some("permission denied for schema lane_01"), "another lane's"),
        ("DELETE FROM lane_03.invoices",                     Some("permission denied for schema lane_03"), "another lane's"),
    ];
    for (sql, refused, why) in cases {
        assert_eq!(as_lane(sql).err().as_deref(), refused, "{sql}: {why}");
    }
    let connections =
        "SELECT DISTINCT rolname::text AS value FROM pg_roles WHERE rolname LIKE 'billing_test_lane_%' ORDER BY 1";
    assert!(query(store.url(), connections).len() >= 4);
}

#[test]
fn a_database_keeps_the_lanes_that_it_was_made_with() {
    let database = empty_database();
    let applied = PgStore::migrate_into_lanes(database.url(), 2).expect("two lanes");
    assert_eq!(applied, versions(), "what both lack is told once");
    assert_eq!(PgStore::migrate(database.url()), Ok(Vec::new()), "whoever does not ask takes it as it is");
    assert_eq!(PgStore::migrate_into_lanes(database.url(), 2), Ok(Vec::new()));
    for lanes in [1, 4] {
        let refused = PgStore::migrate_into_lanes(database.url(), lanes).expect_err("another number").to_string();
        assert!(refused.contains(&format!("{lanes} lanes are asked for, but this database has 2")), "{refused}");
    }
    let store = PgStore::connect(database.url(), 2).expect("connected");
    store.ping().expect("ready");
    assert_eq!(
        query(database.url(), "SELECT coalesce(to_regclass('public.customers')::text, 'none') AS value"),
        ["none"]
    );

    let one = empty_database();
    PgStore::migrate(one.url()).expect("one lane");
    let refused = PgStore::migrate_into_lanes(one.url(), 2).expect_err("customers are where they are").to_string();
    assert!(refused.contains("this database has 1"), "{refused}");
    assert_eq!(query(one.url(), "SELECT number || ' ' || schema_name AS value FROM lanes"), ["0 public"]);

    let odd = empty_database();
    assert!(PgStore::migrate_into_lanes(odd.url(), 3).is_err(), "the top bits of a key tell 2, 4, 8 .. lanes apart");
}

#[test]
fn a_migration_that_was_interrupted_between_lanes_is_ended() {
    let database = empty_database();
    PgStore::migrate_into_lanes(database.url(), 4).expect("four lanes");
    // As if it had been killed when two lanes were made, and nothing was noted.
    execute(database.url(), "DELETE FROM lanes; DROP SCHEMA lane_02 CASCADE; DROP SCHEMA lane_03 CASCADE")
        .expect("undone");
    assert!(PgStore::connect(database.url(), 2).is_err(), "nobody works on half of it");
    PgStore::migrate_into_lanes(database.url(), 4).expect("the rest");
    PgStore::connect(database.url(), 2).expect("connected").ping().expect("ready");
}

#[test]
fn a_list_over_lanes_is_whole_and_in_the_order_of_creation() {
    let store = inhabited();
    let harness = Harness { store: &*store, ingest: &*store, keys: &*store, queue: &*store, answers: &*store };
    let organizations = harness.keys.list_organizations().expect("organizations");
    let longest = organizations.into_iter().map(|organization| {
        let list = |limit: u32| {
            let (mut ids, mut after) = (Vec::new(), None);
            loop {
                let request = PageRequest { limit, after: after.take() };
                let page = (&*store as &dyn Store)
                    .run_for(&Scope::Organization(organization), |tx, _| tx.customers().list(&request))
                    .expect("a page");
                ids.extend(page.items.into_iter().map(|customer| customer.id));
                after = page.next;
                if after.is_none() {
                    return ids;
                }
            }
        };
        let whole = list(1_000);
        for limit in [1, 2, 3] {
            assert_eq!(list(limit), whole, "in pages of {limit}");
        }
        whole.len()
    });
    assert!(longest.max().expect("some") > 2, "of several lanes");
}
