//! Customers in several lanes: each with all that it owns in one schema, and nothing that looks into another.

use billing_domain::store::{PageRequest, Scope, Store};
use billing_domain::testing::contract::{Harness, all};
use billing_store::testing::{TestStore, empty_database, versions};
use billing_store::{LaneStatus, PgStore};

use crate::sql::{execute, query};

/// A database of four lanes in which the cases of the contract have left customers.
fn inhabited() -> TestStore {
    let store = TestStore::with_lanes(4);
    let harness = Harness::of(&*store);
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
    let is_used = |lane: &LaneStatus| lane.contents.is_some_and(|held| held.customers > 0 && held.bytes > 0);
    assert!(lanes.iter().all(is_used), "all of them are used: {lanes:?}");
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
    assert!((0..4).any(|_| store.ping().is_err()), "and nothing is served: one lane is looked at each time");
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
        ("UPDATE plans SET name = name",                     Some("permission denied for table plans"), "what is offered is not a customer's"),
        ("DELETE FROM metric_rollups",                       Some("permission denied for table metric_rollups"), "nor is a roll-up given up for one"),
        ("UPDATE organizations SET name = name",             Some("permission denied for table organizations"), "nor any column but one"),
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

/// The rows of the table in docs/decisions.md: each table's name, and whether a customer's transaction writes it.
fn decided() -> Vec<(String, bool)> {
    let decisions = include_str!("../../../../docs/decisions.md");
    let table = decisions.split("| tables of the catalogue |").nth(1).expect("the table of what a lane needs");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut decided: Vec<_> = rows
        .flat_map(|row| {
            let cells: Vec<&str> = row.split(" | ").collect();
            let names = cells[0].split('`').skip(1).step_by(2);
            let is_written = cells[1].starts_with("writes");
            names.map(move |name| (name.to_owned(), is_written)).collect::<Vec<_>>()
        })
        .collect();
    decided.sort();
    decided
}

#[test]
fn it_is_decided_of_every_table_of_the_catalogue_what_a_lane_does_with_it() {
    let store = TestStore::with_lanes(4);
    let may_write = "has_any_column_privilege('billing_test_lane_00', oid, 'INSERT, UPDATE') OR has_table_privilege('billing_test_lane_00', oid, 'DELETE')";
    let tables = format!(
        "SELECT relname || ' ' || ({may_write}) AS value FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname !~ '^__diesel' ORDER BY relname"
    );
    let decided: Vec<String> = decided().into_iter().map(|(name, is_written)| format!("{name} {is_written}")).collect();
    assert_eq!(query(store.url(), &tables), decided, "the schema and its rights, and docs/decisions.md");
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
    let harness = Harness::of(&*store);
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

/// Works in lanes of all numbers, eight at a time.
fn visit_lanes(store: &TestStore) {
    std::thread::scope(|threads| {
        for thread in 0..8_u128 {
            threads.spawn(move || {
                for n in 0..64_u128 {
                    let key = uuid::Uuid::from_u128(((thread * 64 + n) * 37 % 256) << 120 | n);
                    let scope = Scope::Customer(uuid::Uuid::nil().into(), key.into());
                    store
                        .run(&scope, &mut |tx, _| tx.subscriptions().list(key.into()).map(drop))
                        .expect("a transaction");
                }
            });
        }
    });
}

/// Connections to the database since a time.
fn connections_since(store: &TestStore, time: &str) -> u32 {
    let open = format!(
        "SELECT count(*)::text AS value FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_start > '{time}'"
    );
    query(store.url(), &open)[0].parse().expect("a number")
}

#[test]
fn many_lanes_open_no_more_connections_than_are_used() {
    let store = TestStore::with_lanes(16);
    visit_lanes(&store);
    let open = connections_since(&store, "-infinity");
    // Requests, workers and 16 more, a few of the catalogue, and six of each lane; sixteen lanes with twelve each would be 192.
    assert!(open <= 12 + 8 + 16 + 8 + 16 * 6, "{open} connections are open");
}

#[test]
fn lanes_that_are_come_back_to_keep_their_connections() {
    let store = TestStore::with_lanes(16);
    (0..8).for_each(|_| visit_lanes(&store));
    let now = query(store.url(), "SELECT clock_timestamp()::text AS value").remove(0);
    (0..3).for_each(|_| visit_lanes(&store));
    // Now and then more meet in one lane than ever before.
    let opened = connections_since(&store, &now);
    assert!(opened <= 8, "{opened} connections were opened by work that was done before");
}

/// Everything that each organization owns, whatever lane it is in: a line for each table.
fn digests(url: &str, schemas: &str) -> Vec<String> {
    let owned = "SELECT relname::text AS value FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'customer_key'
        WHERE relnamespace = (SELECT min(schema_name)::regnamespace FROM lanes) AND relkind IN ('r', 'p') AND NOT relispartition
            AND relname NOT IN ('customer_emails', 'feed_entries', 'invoice_numbers', 'lane_reservations', 'plan_version_targets', 'usage_alerts')
            -- Found again, not carried along.
            AND relname <> 'usage_alert_headroom'
        ORDER BY 1";
    let digest = |table: String| {
        let rows = format!(
            "SELECT string_agg(format('SELECT to_jsonb(t) AS row FROM %I.{table} t', schema_name), ' UNION ALL ') AS value FROM ({schemas}) s"
        );
        let rows = query(url, &rows).remove(0);
        let sql = format!(
            "SELECT '{table} ' || count(*) || ' ' || coalesce(md5(string_agg(row::text, ',' ORDER BY row::text)), '') AS value FROM ({rows}) r"
        );
        query(url, &sql).remove(0)
    };
    query(url, owned).into_iter().map(digest).collect()
}

const SCHEMAS: &str = "SELECT schema_name FROM lanes";

/// One lane with customers, subscriptions, invoices, credits and events of several organizations.
fn one_lane() -> TestStore {
    let store = TestStore::with_lanes(1);
    let harness = Harness::of(&*store);
    all().into_iter().for_each(|(_, case)| case(&harness));
    store
}

/// What some schemas say of what was invoiced, hour by hour, and of where subscriptions end and are still to start.
fn added_up(url: &str, schemas: &[String]) -> [Vec<String>; 2] {
    #[rustfmt::skip]
    let sums = [
        // table,                what it is by,                         what is added up
        ("invoiced_hours",      "organization_id, hour, currency_code", "trim_scale(sum(amount))"),
        ("subscription_counts", "organization_id, plan_version_id, at", "nullif(sum(starts + ends * 1000000) FILTER (WHERE at > now()), 0)"),
    ];
    sums.map(|(table, by, sum)| {
        let all: Vec<String> = schemas.iter().map(|schema| format!("SELECT * FROM {schema}.{table}")).collect();
        let all = all.join(" UNION ALL ");
        let sums = format!(
            "SELECT concat_ws(' ', {by}, {sum}) AS value FROM ({all}) every GROUP BY {by} HAVING {sum} <> 0 ORDER BY 1"
        );
        query(url, &sums)
    })
}

#[test]
fn a_split_moves_every_row_into_its_lane_and_loses_none() {
    let store = one_lane();
    let url = store.url().to_owned();
    let before = digests(&url, SCHEMAS);
    let summed = added_up(&url, &["public".to_owned()]);
    assert!(summed.iter().all(|sums| !sums.is_empty()), "{summed:?}");
    for (lanes, why) in [(1, "it has one"), (3, "bits tell no three apart"), (128, "too many")] {
        assert!(PgStore::split(&url, lanes, &mut |_| {}).is_err(), "{why}");
    }
    assert!(PgStore::finish_split(&url).is_err(), "there is nothing to end");
    let done = PgStore::split(&url, 8, &mut |_| {}).expect("a split");
    assert!(done.rows > 1_000 && done.verified > 10, "{done:?}");
    assert_eq!(digests(&url, SCHEMAS), before);
    let lanes: Vec<String> = (0..8).map(|number| format!("lane_{number:02}")).collect();
    assert_eq!(added_up(&url, &lanes), summed, "sums are added up anew");
    assert!(store.ping().is_err(), "whoever was connected to the one lane finds nothing any more");
    let refused = store.run(&Scope::Organization(uuid::Uuid::nil().into()), &mut |tx, _| {
        tx.customers().list(&PageRequest::first()).map(drop)
    });
    assert!(refused.is_err(), "and writes nowhere else: {refused:?}");

    let divided = PgStore::connect(&url, 4).expect("connected");
    divided.ping().expect("ready");
    assert_eq!(divided.check_lanes(&mut |_| {}), Ok(Vec::new()));
    assert_eq!(divided.lanes().expect("lanes").len(), 8);
    PgStore::finish_split(&url).expect("an end");
    assert_eq!(query(&url, "SELECT coalesce(to_regnamespace('splitting')::text, 'gone') AS value"), ["gone"]);
    assert_eq!(digests(&url, SCHEMAS), before);
    let triggers = "SELECT tgname::text AS value FROM pg_trigger WHERE tgenabled <> 'O' AND NOT tgisinternal";
    assert_eq!(query(&url, triggers), [""; 0], "they watch again");

    // It works as any other.
    let harness = Harness::of(&divided);
    for (name, case) in all() {
        if ["customer::", "subscription::", "event::", "invoice::", "credit::"].iter().any(|of| name.starts_with(of)) {
            case(&harness);
        }
    }
    assert_eq!(divided.check_lanes(&mut |_| {}), Ok(Vec::new()));
    assert_eq!(PgStore::split(&url, 8, &mut |_| {}).map(|done| done.rows), Ok(0), "it is done");
    assert!(PgStore::split(&url, 16, &mut |_| {}).is_err(), "and cannot be done again");
}

#[test]
fn a_split_that_was_killed_anywhere_is_ended_by_the_next() {
    let store = one_lane();
    let url = store.url().to_owned();
    let before = digests(&url, SCHEMAS);
    // Each kill is at another step; whatever the step had not committed is gone with its connection.
    let (mut steps, mut is_done) = (0, false);
    while !is_done {
        let mut left = steps;
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            PgStore::split(&url, 2, &mut |_| {
                assert!(left > 0, "killed");
                left -= 1;
            })
        }));
        is_done = match killed {
            Ok(done) => done.map(|_| true).expect("nothing is in the way"),
            Err(_) => {
                assert!(PgStore::connect(&url, 1).is_err() || steps < 4, "nobody works on half of it");
                false
            }
        };
        // One after the other at the beginning, where most differs from step to step.
        steps = if steps < 8 { steps + 1 } else { steps * 2 };
    }
    assert!(steps > 8, "it was killed at several steps");
    assert_eq!(digests(&url, SCHEMAS), before);
    let divided = PgStore::connect(&url, 4).expect("connected");
    assert_eq!(divided.check_lanes(&mut |_| {}), Ok(Vec::new()));
}

#[test]
fn a_split_that_finds_another_digest_switches_nothing() {
    let store = one_lane();
    let url = store.url().to_owned();
    let spoil = |what: &str| {
        if what.starts_with("verifying credits") {
            execute(&url, "ALTER TABLE lane_01.credits DISABLE TRIGGER USER; UPDATE lane_01.credits SET amount_paid = amount_paid + 0.01").expect("spoilt");
        }
    };
    let refused = PgStore::split(&url, 2, &mut |what| spoil(what)).expect_err("a row differs").to_string();
    assert!(refused.contains("credits has") && refused.contains("nothing was switched"), "{refused}");
    assert!(PgStore::connect(&url, 1).is_err(), "nobody works on it");
    let refused = PgStore::migrate(&url).expect_err("nor takes it for empty").to_string();
    assert!(refused.contains("lanes split"), "{refused}");
}
