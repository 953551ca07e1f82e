//! Lanes at addresses: what a commit is worth when somebody stands between the service and the lane's server.

use std::thread;
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;
use billing_domain::store::{EventIngest, Scope, Store, Window};
use billing_domain::testing::build::{self, Ids};
use billing_domain::{Error, StoreError};
use billing_store::PgStore;
use billing_store::testing::{TestStore, empty_database};
use time::OffsetDateTime;
use time::macros::datetime;

use crate::between::{Between, Commit, PORT};
use crate::sql::{execute, query};

const NOW: OffsetDateTime = datetime!(2024-03-10 12:30 UTC);
/// The lane with an address, of four.
const THERE: u8 = 2;

/// A database of four lanes, one of which is to be had only by way of somebody in between.
struct Lanes {
    test: TestStore,
    between: Between,
    store: PgStore,
    organization: OrganizationId,
}

impl Lanes {
    fn new() -> Self {
        let test = TestStore::with_lanes(4);
        let socket = r#"SELECT trim('"' FROM current_setting('unix_socket_directories')) || '/.s.PGSQL.' || current_setting('port') AS value"#;
        let between = Between::before(query(test.url(), socket).remove(0));
        let address = format!("host = '{}', port = {PORT}", between.folder());
        execute(test.url(), &format!("UPDATE lanes SET {address} WHERE number = {THERE}")).expect("an address");
        let store = PgStore::connect(test.url(), 4).expect("connected");
        let organization: OrganizationId = Ids::new(1).next();
        let catalogue: &dyn Store = &store;
        let made = catalogue.run_for(&Scope::Catalog(organization), |tx, now| {
            tx.organizations().insert(&build::organization(organization, now))
        });
        made.expect("an organization");
        Self { test, between, store, organization }
    }

    /// Ids of customers of a lane, none of which comes twice for another `series`.
    fn ids(&self, lane: u8, series: &str) -> impl Iterator<Item = String> {
        let organization = self.organization;
        let key = move |id: &str| build::customer(organization, id, NOW).key.uuid();
        let series = series.to_owned();
        (0..).map(move |n| format!("{series}{n}")).filter(move |id| key(id).as_bytes()[0] >> 6 == lane)
    }

    fn create(&self, id: &str) -> Result<(), Error> {
        let customer = build::customer(self.organization, id, NOW);
        let scope = Scope::Customer(self.organization, customer.key);
        self.store.run(&scope, &mut |tx, _| tx.customers().insert(&customer))
    }

    /// How many rows of a customer of this id there are in a table of the lane with the address.
    fn count(&self, table: &str, id: &str) -> String {
        let key = build::customer(self.organization, id, NOW).key.uuid();
        let sql = format!("SELECT count(*)::text AS value FROM lane_0{THERE}.{table} WHERE customer_key = '{key}'");
        query(self.test.url(), &sql).remove(0)
    }

    /// Creates a customer in each lane without an address, none of which may take long.
    fn expect_others_at_work(&self, series: &str) {
        for lane in (0..4).filter(|lane| *lane != THERE) {
            let (id, start) = (self.ids(lane, series).next().expect("an id"), Instant::now());
            assert_eq!(self.create(&id), Ok(()), "lane {lane} while lane {THERE} is not to be had");
            assert!(start.elapsed() < Duration::from_secs(1), "lane {lane}: {:?}", start.elapsed());
        }
    }
}

#[rustfmt::skip]
const CASES: [(Commit, &str, &str); 4] = [
    // what becomes of the commit, rows, why
    (Commit::Refused,    "0", "the server said no"),
    (Commit::Warned,     "0", "the server warned, took it back, and was said to have committed"),
    (Commit::Lost,       "0", "nobody answered"),
    (Commit::LostBehind, "1", "nobody answered, and it was committed"),
];

#[test]
fn only_a_commit_that_the_server_knows_of_is_acknowledged() {
    let lanes = Lanes::new();
    let mut ids = lanes.ids(THERE, "c");
    for (commit, rows, why) in CASES {
        let id = ids.next().expect("an id");
        lanes.between.make_commits(commit);
        let outcome = lanes.create(&id);
        assert!(matches!(outcome, Err(Error::Store(_))), "{commit:?}: {outcome:?}: {why}");
        lanes.expect_others_at_work(&format!("{commit:?}"));
        lanes.between.make_commits(Commit::Passed);
        assert_eq!(lanes.count("customers", &id), rows, "{commit:?}: {why}");
        let next = ids.next().expect("an id");
        assert_eq!(lanes.create(&next), Ok(()), "and the next one is as ever");
        assert_eq!(lanes.count("customers", &next), "1");
    }
}

#[test]
fn events_are_acknowledged_once_they_are_there_and_counted_once() {
    let lanes = Lanes::new();
    let mut ids = lanes.ids(THERE, "c");
    for (commit, rows, why) in CASES {
        let id = ids.next().expect("an id");
        let events = [build::event(&id, "call", "e1", NOW)];
        let send = || lanes.store.ingest(lanes.organization, &events, Window::Open);
        assert_eq!(lanes.create(&id), Ok(()));
        lanes.between.make_commits(commit);
        let outcome = send();
        // Whoever may store a thing twice without harm has done it again: a connection that was lost is another one.
        assert!(outcome.is_err(), "{commit:?}: {outcome:?}: {why}");
        lanes.between.make_commits(Commit::Passed);
        assert_eq!(lanes.count("events", &id), rows, "{commit:?}: {why}");
        send().expect("taken in");
        assert_eq!(lanes.count("events", &id), "1", "{commit:?}: sent again, stored once");
    }
}

#[test]
fn a_lane_that_is_not_to_be_had_stops_no_other() {
    let lanes = Lanes::new();
    let id = lanes.ids(THERE, "c").next().expect("an id");
    assert_eq!(lanes.create(&id), Ok(()));
    let address = format!("{}:{PORT}", lanes.between.folder());
    assert_eq!(lanes.store.lanes().expect("lanes")[usize::from(THERE)].address, address);
    assert_eq!(lanes.store.check_lanes(&mut |_| {}), Ok(Vec::new()));

    lanes.between.leave();
    let outcome = lanes.create(&lanes.ids(THERE, "d").next().expect("an id"));
    assert!(matches!(outcome, Err(Error::Store(StoreError::Unavailable(_)))), "{outcome:?}");
    lanes.expect_others_at_work("o");
    let faults = lanes.store.check_lanes(&mut |_| {}).expect("a check");
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with(&format!("lane {THERE} is not to be had at {address}")), "{faults:?}");
}

/// More than a moment.
const AWAY_FOR: Duration = Duration::from_millis(1_200);

#[test]
fn an_address_that_leads_to_another_catalogue_is_refused() {
    let lanes = Lanes::new();
    // The same server, and another database of it.
    let other = empty_database();
    let name = query(other.url(), "SELECT current_database()::text AS value").remove(0);
    let elsewhere = format!("UPDATE lanes SET database_name = '{name}' WHERE number = {THERE}");
    execute(lanes.test.url(), &elsewhere).expect("an address");
    let lanes = Lanes { store: PgStore::connect(lanes.test.url(), 4).expect("connected"), ..lanes };
    let id = lanes.ids(THERE, "c").next().expect("an id");
    assert!(lanes.create(&id).is_err(), "nothing is written there");
    lanes.expect_others_at_work("o");
    // From when it has been away for more than a moment, nobody waits for the next attempt.
    thread::sleep(AWAY_FOR);
    for _ in 0..5 {
        let faults = lanes.store.check_lanes(&mut |_| {}).expect("a check");
        assert!(faults.len() == 1 && faults[0].contains("leads to another database"), "{faults:?}");
    }

    let faulty = [
        ("host = 'a b', port = 1", "a space"),
        ("host = 'a', port = NULL", "half an address"),
        ("database_name = 'a''b'", "a quote"),
    ];
    for (address, why) in faulty {
        let refused = execute(lanes.test.url(), &format!("UPDATE lanes SET {address}"));
        assert!(refused.is_err_and(|error| error.contains("check constraint")), "{why}");
    }
}
