//! Lanes that move between servers while their customers are served: nobody notices, and nothing is lost or there twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::StoreError;
use billing_domain::customer::Customer;
use billing_domain::event::Ingested;
use billing_domain::id::OrganizationId;
use billing_domain::idempotency::{Answer, Attempt, Claim, IdempotencyStore};
use billing_domain::store::{BillingQueue, EventIngest, InvoiceFilter, PageRequest, Scope, Store, Transaction, Window};
use billing_domain::testing::build::{self, Ids};
use billing_store::PgStore;
use billing_store::testing::{TestStore, look_in_lane};
use time::OffsetDateTime;

use crate::nodes::databases;
use crate::sql::{execute, query};

/// How long between two calls of one who is at work all the time.
const PAUSE: Duration = Duration::from_millis(2);

/// A database of two lanes with a node, and a customer of each lane.
pub(crate) struct Served {
    pub(crate) store: PgStore,
    pub(crate) home: String,
    pub(crate) node: String,
    pub(crate) organization: OrganizationId,
    pub(crate) staying: Customer,
    pub(crate) moving: Customer,
}

impl Served {
    pub(crate) fn new() -> Self {
        let (home, node, (host, port, database)) = databases();
        PgStore::migrate_into_lanes(&home, 2).expect("two lanes");
        // It has never heard of a node.
        let store = PgStore::connect(&home, 12).expect("connected");
        PgStore::add_node(&home, ("east", &host, port, &database), &mut |_| {}).expect("a node");
        let mut ids = Ids::new(1);
        let organization: OrganizationId = ids.next();
        let made = (&store as &dyn Store).run_for(&Scope::Catalog(organization), |tx, now| {
            tx.organizations().insert(&build::organization(organization, now))?;
            tx.metrics().insert(&build::count_metric(&mut ids, "call", now))?;
            Ok(now)
        });
        let now = made.expect("an organization");
        let of_lane = |lane: u8| {
            let mut customers = (0..).map(|n| build::customer(organization, &format!("customer_{n}"), now));
            customers.find(|customer| customer.key.uuid().as_bytes()[0] >> 7 == lane).expect("endless")
        };
        let (staying, moving) = (of_lane(0), of_lane(1));
        let served = Self { store, home, node, organization, staying, moving };
        for customer in [&served.staying, &served.moving] {
            let insert = |tx: &mut dyn Transaction, _| tx.customers().insert(customer);
            (&served.store as &dyn Store).run_for(&served.scope(customer), insert).expect("a customer");
        }
        served
    }

    pub(crate) fn scope(&self, customer: &Customer) -> Scope {
        Scope::Customer(self.organization, customer.key)
    }

    pub(crate) fn move_to(&self, node: Option<&str>) {
        PgStore::move_lane(&self.home, 1, node, &mut |_| {}).unwrap_or_else(|error| panic!("{node:?}: {error}"));
    }

    /// Issues invoices all the time until it is over; how many, and how long one took at most.
    pub(crate) fn issue(&self, customer: &Customer, seed: u32, is_over: &AtomicBool) -> (usize, Duration) {
        let (mut ids, mut issued, mut longest) = (Ids::new(seed), 0, Duration::ZERO);
        while !is_over.load(Ordering::SeqCst) {
            let began = Instant::now();
            let done = (&self.store as &dyn Store)
                .run_for(&self.scope(customer), |tx, now| issue(tx, &mut ids, customer, now));
            assert_eq!(done, Ok(()), "{issued}");
            longest = longest.max(began.elapsed());
            issued += 1;
            thread::sleep(PAUSE);
        }
        (issued, longest)
    }

    /// The same under idempotency keys.
    fn issue_claimed(&self, seed: u32, is_over: &AtomicBool) -> usize {
        let (mut ids, mut issued) = (Ids::new(seed), 0);
        while !is_over.load(Ordering::SeqCst) {
            let claim = Claim { key: format!("claim {issued}"), fingerprint: vec![1; 32] };
            let done = self.store.run_once(&self.scope(&self.moving), &claim, &mut |tx, now| {
                issue(tx, &mut ids, &self.moving, now)?;
                Ok(Attempt::Done(Answer { status: 201, text: claim.key.clone() }))
            });
            assert_eq!(done, Ok(()), "{}", claim.key);
            let kept = self.store.find_answer(self.organization, &claim.key).expect("an answer");
            assert_eq!(kept.map(|kept| kept.answer.text), Some(claim.key));
            issued += 1;
            thread::sleep(PAUSE);
        }
        issued
    }

    /// Sends events of both customers all the time until it is over; how many of each.
    fn send(&self, is_over: &AtomicBool) -> usize {
        let mut sent = 0;
        while !is_over.load(Ordering::SeqCst) {
            let events = [&self.moving, &self.staying].map(|customer| {
                build::event(customer.id.as_str(), "call", &format!("call {sent}"), OffsetDateTime::now_utc())
            });
            let done = self.store.ingest(self.organization, &events, Window::Enforced);
            assert_eq!(done, Ok(vec![Ingested::Stored; 2]), "{sent}");
            sent += 1;
            thread::sleep(PAUSE);
        }
        sent
    }

    /// Looks at all lanes until it is over; how often.
    fn look(&self, is_over: &AtomicBool) -> usize {
        let mut looked = 0;
        while !is_over.load(Ordering::SeqCst) {
            let store: &dyn Store = &self.store;
            let list =
                |tx: &mut dyn Transaction, _| tx.invoices().list(&InvoiceFilter::default(), &PageRequest::first());
            let listed = store.run_for(&Scope::Organization(self.organization), list);
            assert!(listed.is_ok(), "{looked}: {listed:?}");
            assert!(self.store.backlog().is_ok() && self.store.ping().is_ok(), "{looked}");
            looked += 1;
            thread::sleep(PAUSE);
        }
        looked
    }

    pub(crate) fn home(&self, sql: &str) -> String {
        query(&self.home, &format!("SELECT ({sql})::text AS value")).remove(0)
    }
}

pub(crate) fn issue(
    tx: &mut dyn Transaction,
    ids: &mut Ids,
    customer: &Customer,
    now: OffsetDateTime,
) -> Result<(), billing_domain::Error> {
    tx.invoices().issue(build::invoice(ids, customer, now, vec![build::line("fee", "1.10", now)]))
}

#[test]
fn a_lane_moves_there_and_back_while_everybody_is_served() {
    let served = Served::new();
    let is_over = AtomicBool::new(false);
    let (issued, claimed, of_others, sent) = thread::scope(|threads| {
        let moving = threads.spawn(|| served.issue(&served.moving, 100, &is_over));
        let claiming = threads.spawn(|| served.issue_claimed(200, &is_over));
        let staying = threads.spawn(|| served.issue(&served.staying, 300, &is_over));
        let sending = threads.spawn(|| served.send(&is_over));
        let looking = threads.spawn(|| served.look(&is_over));
        let moves = [Some("east"), None, Some("east")].map(|node| {
            let moved = PgStore::move_lane(&served.home, 1, node, &mut |_| {});
            thread::sleep(Duration::from_millis(200));
            moved.map_err(|error| format!("{node:?}: {error}"))
        });
        is_over.store(true, Ordering::SeqCst);
        assert!(moves.iter().all(Result::is_ok), "{moves:?}");
        assert!(looking.join().expect("every look") > 5);
        let [moving, staying] = [moving, staying].map(|issuing| issuing.join().expect("every invoice"));
        // Whoever is served from elsewhere waits for as long as a lane stands still, and nobody else does.
        assert!(moving.1 < Duration::from_secs(5), "{moving:?}");
        (moving.0, claiming.join().expect("every claim"), staying.0, sending.join().expect("every event"))
    });
    assert!(issued.min(claimed).min(of_others).min(sent) > 5, "{issued} {claimed} {of_others} {sent}");
    let there = served.home("SELECT schema_name FROM lanes WHERE number = 1");
    assert_eq!(there, "lane_01_m3");
    let count = |url: &str, table: &str| query(url, &format!("SELECT count(*)::text AS value FROM {table}")).remove(0);
    assert_eq!(count(&served.node, &format!("{there}.invoices")), (issued + claimed).to_string());
    assert_eq!(count(&served.home, "lane_00.invoices"), of_others.to_string());
    assert_eq!(count(&served.node, &format!("{there}.events")), sent.to_string());
    assert_eq!(count(&served.home, "lane_00.events"), sent.to_string());
    let counted = format!("SELECT sum(event_count)::text AS value FROM {there}.counted_usage WHERE bucket_hours = 24");
    assert_eq!(query(&served.node, &counted), [sent.to_string()], "each is counted once");
    // Numbers: what nobody has came back and is the next to be used.
    assert_eq!(count(&served.home, "lane_reservations"), "0");
    let all = issued + claimed + of_others;
    let last = "SELECT last_sequence - (SELECT count(*) FROM returned_numbers WHERE kind = 'invoice_number') FROM invoice_counters";
    assert_eq!((served.home(last), count(&served.home, "invoice_numbers")), (all.to_string(), all.to_string()));
    let unanswered = served.home("SELECT count(*) FROM idempotency_keys WHERE status IS NULL");
    assert_eq!((unanswered, count(&served.home, "idempotency_keys")), ("0".to_owned(), claimed.to_string()));
    assert_eq!(served.store.check_lanes(&mut |_| {}), Ok(Vec::new()));
}

#[test]
fn a_lane_that_stands_still_for_long_is_answered_for_and_others_are_served() {
    let served = Served::new();
    let is_over = AtomicBool::new(true);
    let mut tried = false;
    let moved = PgStore::move_lane(&served.home, 1, Some("east"), &mut |what| {
        if what != "renaming" {
            return;
        }
        tried = true;
        let read = |customer: &Customer| {
            let began = Instant::now();
            let get = |tx: &mut dyn Transaction, _| tx.customers().get(customer.key).map(drop);
            ((&served.store as &dyn Store).run_for(&served.scope(customer), get), began.elapsed())
        };
        let (first, waited) = read(&served.moving);
        let is_said = |answer: &Result<(), billing_domain::Error>| matches!(answer, Err(billing_domain::Error::Store(StoreError::Unavailable(why))) if why.contains("lane 1 is on its way"));
        assert!(is_said(&first) && waited > Duration::from_secs(4), "{first:?} after {waited:?}");
        let (next, waited) = read(&served.moving);
        assert!(is_said(&next) && waited < Duration::from_secs(1), "it is not waited for twice: {next:?}, {waited:?}");
        let (other, waited) = read(&served.staying);
        assert!(other.is_ok() && waited < Duration::from_secs(1), "{other:?}, {waited:?}");
    });
    assert!(moved.is_ok() && tried, "{moved:?}");
    assert_eq!(served.issue(&served.moving, 7, &is_over).0, 0);
    is_over.store(false, Ordering::SeqCst);
    thread::scope(|threads| {
        threads.spawn(|| served.issue(&served.moving, 7, &is_over));
        thread::sleep(Duration::from_millis(100));
        is_over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn what_is_missing_although_its_lane_is_there_is_a_fault_and_no_move() {
    let served = Served::new();
    served.move_to(Some("east"));
    let get = |tx: &mut dyn Transaction, _| tx.customers().get(served.moving.key).map(drop);
    let store: &dyn Store = &served.store;
    assert_eq!(store.run_for(&served.scope(&served.moving), get), Ok(()));
    execute(&served.node, "ALTER TABLE lane_01_m1.credits RENAME TO gone").expect("renamed");
    let began = Instant::now();
    let failed = store.run_for(&served.scope(&served.moving), |tx, _| tx.credits().list(served.moving.key).map(drop));
    assert!(
        matches!(&failed, Err(billing_domain::Error::Store(StoreError::Internal(why))) if why.contains("does not exist")),
        "{failed:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(2), "nobody waits for it");
}

#[test]
fn a_lane_that_goes_on_while_it_is_looked_for_is_looked_for_there_as_often() {
    let store = TestStore::with_lanes(2);
    let move_on =
        "ALTER SCHEMA lane_01 RENAME TO lane_01_m1; UPDATE lanes SET schema_name = 'lane_01_m1' WHERE number = 1";
    let look = |found_at: usize, moves_at: usize| {
        let mut looked_in = Vec::new();
        let looked = look_in_lane(&store, 1, |schema| {
            looked_in.push(schema.to_owned());
            if looked_in.len() == moves_at {
                execute(store.url(), move_on).expect("it goes on");
            }
            looked_in.len() == found_at
        });
        (looked.is_ok(), looked_in)
    };
    let twice = |schema: &str| vec![schema.to_owned(); 2];
    assert_eq!(look(3, 0), (false, twice("lane_01")), "what is missing where the lane is is looked for once more");
    assert_eq!(look(4, 2), (true, [twice("lane_01"), twice("lane_01_m1")].concat()), "and so where it went");
}

#[test]
fn a_lane_that_lacks_a_migration_is_not_worked_with_until_it_has_it() {
    let served = Served::new();
    served.move_to(Some("east"));
    let forget = "DROP TABLE lane_01_m1.lane_tokens; DELETE FROM lane_01_m1.__diesel_schema_migrations WHERE version LIKE '%000601'";
    execute(&served.node, forget).expect("undone");
    execute(&served.home, "UPDATE nodes SET port = port + 1").expect("unreachable");
    assert_eq!(PgStore::migrate(&served.home), Ok(Vec::new()), "a node that does not answer is passed over");
    execute(&served.home, "UPDATE nodes SET port = port - 1").expect("reachable");
    let get = |customer: &Customer| {
        let store = PgStore::connect(&served.home, 2).expect("connected");
        let get = |tx: &mut dyn Transaction, _| tx.customers().get(customer.key).map(drop);
        (&store as &dyn Store).run_for(&served.scope(customer), get)
    };
    let refused = get(&served.moving).expect_err("it is as it was").to_string();
    assert!(refused.contains("lacks the migration") && refused.contains("000601"), "{refused}");
    assert_eq!(get(&served.staying), Ok(()));
    assert_eq!(PgStore::migrate(&served.home).expect("it answers").len(), 1);
    assert_eq!(get(&served.moving), Ok(()));
}

#[test]
fn a_move_that_was_cut_off_is_ended_where_it_went_or_given_back() {
    let served = Served::new();
    let (_, elsewhere, (host, port, database)) = databases();
    PgStore::add_node(&served.home, ("west", &host, port, &database), &mut |_| {}).expect("a second node");
    let kill = || {
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            PgStore::move_lane(&served.home, 1, Some("east"), &mut |what| assert_ne!(what, "renaming", "killed"))
        }));
        assert!(killed.is_err());
    };
    kill();
    let began = Instant::now();
    let refused = PgStore::move_lane(&served.home, 1, Some("west"), &mut |_| {}).expect_err("not there").to_string();
    assert!(refused.contains("on its way to another server") && began.elapsed() < Duration::from_secs(5), "{refused}");
    // Home is where it is by the directory.
    served.move_to(None);
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| served.issue(&served.moving, 7, &over));
        thread::sleep(Duration::from_millis(50));
        over.store(true, Ordering::SeqCst);
    });
    let slots = "SELECT slot_name::text AS value FROM pg_replication_slots WHERE slot_name LIKE '%lane%' AND database = current_database()";
    assert_eq!(query(&served.home, slots), Vec::<String>::new(), "nothing is kept for nobody");
    served.move_to(Some("west"));
    assert_eq!(query(&elsewhere, "SELECT count(*)::text AS value FROM lane_01_m1.customers"), ["1"]);
    assert_eq!(served.store.check_lanes(&mut |_| {}), Ok(Vec::new()));
}

#[test]
fn a_node_that_forgets_commits_is_refused_and_one_that_is_away_keeps_nobody_from_starting() {
    let served = Served::new();
    served.move_to(Some("east"));
    // The throw-away servers of the tests forget.
    let check = || PgStore::connect(&served.home, 2).expect("connected").check_durability().expect_err("they forget");
    let refused = check().to_string();
    assert!(refused.contains("; lane 1 at ") && refused.contains("synchronous_commit is off"), "{refused}");
    execute(&served.home, "UPDATE nodes SET port = port + 1").expect("unreachable");
    let refused = check().to_string();
    assert!(refused.contains("fsync is off") && !refused.contains("lane 1"), "{refused}");
    let store = PgStore::connect(&served.home, 2).expect("connected");
    assert_eq!([(); 4].map(|()| store.ping()), [const { Ok(()) }; 4], "customers of other lanes are served");
    let is_lost = "lane 1 is not to be had at ";
    assert!(store.check_lanes(&mut |_| {}).expect("looked").iter().any(|fault| fault.starts_with(is_lost)));
}
