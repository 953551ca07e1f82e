//! What is told of the events that came in lately: of all processes and lanes together, and without reading events.

use billing_domain::id::OrganizationId;
use billing_domain::store::{EventIngest, EventMinute, Overviews, Scope, Store, UNCOUNTED_MAX, Window};
use billing_domain::testing::build::{self, Ids};
use billing_store::PgStore;
use billing_store::testing::{TestStore, listen_to_statements, statements_heard};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;
use time::OffsetDateTime;

use crate::sql::{connect, execute, query};

fn new_organization(store: &PgStore, seed: u32) -> OrganizationId {
    let id = Ids::new(seed).next();
    let store: &dyn Store = store;
    let insert = store.run_for(&Scope::Catalog(id), |tx, now| tx.organizations().insert(&build::organization(id, now)));
    insert.expect("an organization");
    id
}

/// Sends an event of each of so many customers, of whom none is there.
fn send(store: &PgStore, organization: OrganizationId, customers: std::ops::Range<u32>) {
    let now = OffsetDateTime::now_utc();
    let event = |number| build::event(&format!("c{number}"), "call", &format!("{number}"), now);
    let events: Vec<_> = customers.map(event).collect();
    store.ingest(organization, &events, Window::Enforced).expect("taken in");
}

/// All events of the last hour, and those of nobody.
fn sums(store: &PgStore, organization: OrganizationId) -> (u64, u64) {
    let minutes = store.recent_events(organization).expect("read").minutes;
    let sum = |count: fn(&EventMinute) -> u64| minutes.iter().map(count).sum();
    (sum(|minute| minute.stored), sum(|minute| minute.of_unknown_customers))
}

#[test]
fn several_processes_and_lanes_add_up() {
    let store = TestStore::with_lanes(4);
    let other = PgStore::connect(store.url(), 2).expect("another process");
    let organization = new_organization(&store, 71);
    send(&store, organization, 0..30);
    send(&other, organization, 20..70);
    assert_eq!(sums(&store, organization), (0, 0), "noted behind the answer");
    store.note_events().expect("noted");
    assert_eq!(sums(&other, organization), (30, 30), "and then seen by every process");
    other.note_events().expect("noted");
    other.note_events().expect("nothing is noted twice");
    assert_eq!(sums(&store, organization), (70, 70), "those that one had known count once");
    std::thread::scope(|threads| {
        for (process, start) in [(&*store, 100), (&other, 200)] {
            threads.spawn(move || {
                for round in 0..10 {
                    send(process, organization, start + round * 10..start + round * 10 + 10);
                    process.note_events().expect("noted");
                }
            });
        }
    });
    assert_eq!(sums(&store, organization), (270, 270), "also at the same time");
}

#[test]
fn what_cannot_be_noted_is_noted_later() {
    let store = TestStore::new();
    let organization = new_organization(&store, 72);
    send(&store, organization, 0..5);
    execute(store.url(), "ALTER TABLE event_minutes RENAME TO aside").expect("gone");
    assert!(store.note_events().is_err());
    execute(store.url(), "ALTER TABLE aside RENAME TO event_minutes").expect("back");
    send(&store, organization, 5..8);
    store.note_events().expect("noted");
    assert_eq!(sums(&store, organization), (8, 8));
}

#[test]
fn rows_are_few_whatever_is_sent_and_old_ones_go() {
    let store = TestStore::new();
    let organization = new_organization(&store, 73);
    let old = "INSERT INTO event_minutes SELECT id, date_trunc('minute', now()) - n * interval '1 minute', 7, 0, 0
        FROM organizations, generate_series(70, 200) n;
        INSERT INTO uncounted_events SELECT id, 'unknown_customer', 'old', 'call', 'old', 9, now() - interval '3 days', now() - interval '2 days'
        FROM organizations";
    execute(store.url(), old).expect("made");
    assert_eq!(store.recent_events(organization).expect("read").uncounted, [], "what is old is not told of");
    for round in 0..20 {
        send(&store, organization, round * 100..(round + 1) * 100);
        store.note_events().expect("noted");
    }
    let count = |table: &str| query(store.url(), &format!("SELECT count(*)::text AS value FROM {table}"))[0].clone();
    assert_eq!(count("uncounted_events"), "100", "the latest hundred");
    let minutes: u32 = count("event_minutes").parse().expect("a number");
    assert!((51..=54).contains(&minutes), "those of two hours: {minutes}");
    let told = store.recent_events(organization).expect("read");
    assert_eq!((told.minutes.len(), told.uncounted.len()), (60, UNCOUNTED_MAX));
    assert_eq!(sums(&store, organization), (2_000, 2_000), "none is lost of the figures");
    send(&store, organization, 9_000..9_001);
    execute(store.url(), "UPDATE uncounted_events SET last_at = now() - interval '25 hours' WHERE subject = 'c1999'")
        .expect("aged");
    store
        .ingest(organization, &[build::event("c1999", "call", "anew", OffsetDateTime::now_utc())], Window::Enforced)
        .expect("taken in");
    store.note_events().expect("noted");
    let told = store.recent_events(organization).expect("read").uncounted;
    let anew = told.iter().find(|one| one.subject() == "c1999").expect("told");
    assert_eq!((anew.event_count, anew.first_at), (1, anew.last_at), "after a day of none it begins anew");
}

#[derive(QueryableByName)]
struct PlanLine {
    #[diesel(sql_type = Text, column_name = "QUERY PLAN")]
    line: String,
}

/// With 2,000 organizations and 240,000 minutes of them a reader touches its own.
#[test]
fn what_is_told_is_read_by_index() {
    listen_to_statements();
    let store = TestStore::new();
    let organization = new_organization(&store, 74);
    let others = "INSERT INTO organizations SELECT (jsonb_populate_record(organization, jsonb_build_object('id', gen_random_uuid()))).*
            FROM organizations organization, generate_series(1, 2000);
        INSERT INTO event_minutes SELECT id, date_trunc('minute', now()) - n * interval '1 minute', 7, 0, 0
            FROM organizations, generate_series(-5, 119) n;
        INSERT INTO uncounted_events SELECT id, 'unknown_customer', 'c' || n, 'call', 'c' || n, 9, now(), now()
            FROM organizations, generate_series(1, 100) n;
        ANALYZE event_minutes, uncounted_events, metrics";
    execute(store.url(), others).expect("made");
    assert_eq!(sums(&store, organization), (60 * 7, 0));
    let mut pg = connect(store.url());
    #[rustfmt::skip]
    let cases = [
        // of the statement, index,                   most rows, why
        ("event_minutes",    "event_minutes_pkey",    125,       "those of two hours, and minutes to come for a test that takes long"),
        ("uncounted_events", "uncounted_events_pkey", 100,       "the latest hundred"),
    ];
    for (number, (table, index, most, why)) in cases.into_iter().enumerate() {
        let of_table = |text: &String| text.starts_with("SELECT") && text.contains(&format!("FROM {table}"));
        let statement = statements_heard(store.url()).into_iter().find(of_table).expect("a statement");
        pg.batch_execute(&format!("PREPARE wanted_{number} AS {statement}")).expect("a statement");
        let owner = organization.uuid();
        let explain =
            format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE wanted_{number}('{owner}')");
        let plan: Vec<PlanLine> = diesel::sql_query(explain).load(&mut pg).expect("a plan");
        let plan = plan.into_iter().map(|line| line.line).collect::<Vec<_>>().join("\n");
        assert!(plan.contains(index) && !plan.contains(&format!("Seq Scan on {table}")), "{table}: {plan}");
        let read = plan.split("rows=").skip(1).filter_map(|rest| rest.split(['.', ' ']).next()?.parse::<u64>().ok());
        assert!(read.clone().max() <= Some(most) && read.count() > 0, "{table}: {why}: {plan}");
    }
}
