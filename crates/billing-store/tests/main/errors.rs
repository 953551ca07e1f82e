//! What becomes of database errors.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{ApiKeyLookup, Scope, Store, Transaction};
use billing_domain::testing::build::{self, Ids};
use billing_domain::{Error, StoreError};
use billing_store::PgStore;
use billing_store::testing::TestStore;
use diesel::connection::SimpleConnection;

use crate::sql::{connect, execute, query};

fn organization(store: &PgStore, seed: u32) -> OrganizationId {
    let id: OrganizationId = Ids::new(seed).next();
    let store: &dyn Store = store;
    store
        .run_for(&Scope::Catalog(id), |tx, now| tx.organizations().insert(&build::organization(id, now)))
        .expect("an organization");
    id
}

fn key(organization: OrganizationId, id: &str) -> CustomerKey {
    build::customer(organization, id, time::OffsetDateTime::UNIX_EPOCH).key
}

fn run(
    store: &PgStore,
    scope: &Scope,
    mut work: impl FnMut(&mut dyn Transaction) -> Result<(), Error>,
) -> Result<(), Error> {
    store.run(scope, &mut |tx, _| work(tx))
}

#[test]
fn an_unreachable_database_is_unavailable() {
    let refused = PgStore::connect("postgresql:///nothing?host=/nowhere&connect_timeout=1", 1);
    assert!(matches!(refused.map(drop), Err(StoreError::Unavailable(_))));
}

#[test]
fn a_full_pool_says_so_in_time() {
    let test = TestStore::in_one_lane();
    let store = PgStore::connect(test.url(), 1).expect("connected");
    let organization = organization(&store, 1);
    let scope = Scope::Organization(organization);
    run(&store, &scope, |_| {
        let start = Instant::now();
        let refused = store.find_key("none");
        assert_eq!(refused, Err(StoreError::PoolExhausted.into()));
        assert!(start.elapsed() < Duration::from_millis(1_500), "{:?}", start.elapsed());
        Ok(())
    })
    .expect("the outer transaction");
    assert_eq!(store.find_key("none"), Ok(None), "normal again at once");
}

#[test]
fn a_lock_that_is_held_too_long_is_a_lock_timeout() {
    let store = TestStore::in_one_lane();
    let organization = organization(&store, 1);
    let scope = Scope::Customer(organization, key(organization, "acme"));
    let other = Scope::Customer(organization, key(organization, "other"));
    run(&store, &scope, |_| {
        let start = Instant::now();
        assert_eq!(run(&store, &scope, |_| Ok(())), Err(StoreError::LockTimeout.into()));
        assert!(start.elapsed() < Duration::from_millis(3_000), "{:?}", start.elapsed());
        assert_eq!(run(&store, &other, |_| Ok(())), Ok(()), "another customer does not wait");
        Ok(())
    })
    .expect("the outer transaction");
}

#[test]
fn reading_transactions_cannot_write() {
    let store = TestStore::in_one_lane();
    let organization = organization(&store, 1);
    let scope = Scope::Organization(organization);
    let refused = run(&store, &scope, |tx| {
        tx.organizations().update(&build::organization(organization, time::OffsetDateTime::UNIX_EPOCH))
    });
    assert_eq!(refused, Err(StoreError::ReadOnly.into()));
}

#[test]
fn a_null_character_is_the_callers_fault() {
    let store = TestStore::in_one_lane();
    let organization = organization(&store, 1);
    let scope = Scope::Organization(organization);
    let refused = run(&store, &scope, |tx| tx.invoices().find_by_number("a\0b").map(drop));
    assert!(matches!(refused, Err(Error::Fields(_))), "{refused:?}");
}

#[test]
fn a_failed_statement_is_never_committed_over() {
    let store = TestStore::in_one_lane();
    let organization = organization(&store, 1);
    let customer = build::customer(organization, "acme", time::OffsetDateTime::UNIX_EPOCH);
    let scope = Scope::Customer(organization, customer.key);
    let swallowed = run(&store, &scope, |tx| {
        tx.customers().insert(&customer)?;
        // The work makes nothing of the refusal.
        let _ = tx.customers().insert(&customer);
        Ok(())
    });
    assert!(matches!(swallowed, Err(Error::Refused(_))), "{swallowed:?}");
}

#[test]
fn dead_connections_are_replaced() {
    let test = TestStore::in_one_lane();
    let store = PgStore::connect(test.url(), 3).expect("connected");
    let organization = organization(&store, 1);
    let scope = Scope::Customer(organization, key(organization, "acme"));
    for _ in 0..3 {
        query(
            test.url(),
            "SELECT count(pg_terminate_backend(pid))::text AS value FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
        assert_eq!(run(&store, &scope, |_| Ok(())), Ok(()), "a transaction");
        assert_eq!(store.find_key("none"), Ok(None), "a statement");
    }
    let mut tries = 0;
    let work = run(&store, &scope, |tx| {
        tries += 1;
        if tries == 1 {
            execute(
                test.url(),
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'",
            )
            .expect("terminated");
        }
        tx.organizations().get().map(drop)
    });
    assert_eq!((work, tries), (Ok(()), 2), "in the middle of a transaction: once more from the start");
}

#[test]
fn deadlocks_are_run_again() {
    let store = TestStore::in_one_lane();
    let (a, b) = (organization(&store, 1), organization(&store, 2));
    let both_hold_one = Barrier::new(2);
    // Two catalogues' transactions lock each other's rows in the opposite order, through a second statement of the
    // test's own: rows of one table that both scopes may touch do not exist in the store.
    let lock = |first: &'static str, second: &'static str| {
        let mut connection = connect(store.url());
        connection.batch_execute("SET deadlock_timeout = '50ms'; BEGIN").expect("begun");
        connection.batch_execute(first).expect("locked");
        both_hold_one.wait();
        let second = connection.batch_execute(second).map_err(|error| error.to_string());
        connection.batch_execute("ROLLBACK").expect("rolled back");
        second
    };
    let one =
        "UPDATE ingest_versions SET version = version WHERE organization_id = '00000000-0000-0001-0000-000000000001'";
    let two =
        "UPDATE ingest_versions SET version = version WHERE organization_id = '00000000-0000-0002-0000-000000000001'";
    let results = std::thread::scope(|threads| {
        let other = threads.spawn(|| lock(two, one));
        [lock(one, two), other.join().expect("a thread")]
    });
    let messages: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert!(messages.iter().all(|message| message.starts_with("deadlock detected")), "{messages:?}");
    assert_eq!(messages.len(), 1, "this is the message that makes the store run work again");
    // A serialization failure runs the work again, three times, and then gives up.
    let mut tries = 0;
    let scope = Scope::Catalog(a);
    let gives_up = run(&store, &scope, |tx| {
        tries += 1;
        assert!(tx.organizations().get().is_ok());
        tx.billing_records().insert(key(b, "none"), &[])?;
        conflict(tx, &store, key(a, "acme"), tries == 1)
    });
    assert_eq!((gives_up, tries), (Err(StoreError::LockTimeout.into()), 4));
}

/// Updates a billing record that somebody else changes in between, past the store.
fn conflict(tx: &mut dyn Transaction, store: &TestStore, customer: CustomerKey, is_first: bool) -> Result<(), Error> {
    let now = time::OffsetDateTime::UNIX_EPOCH;
    if is_first {
        let organization = tx.organization();
        let as_store: &dyn Store = &**store;
        as_store.run_for(&Scope::Customer(organization, customer), |tx, _| {
            let mut ids = Ids::new(9);
            let plan = build::plan(&mut ids, "gold", now);
            let version = build::plan_version(&mut ids, &plan, now);
            tx.customers().insert(&build::customer(organization, "acme", now))?;
            let held = build::subscription(&mut ids, customer, &version, build::days_from(now, 30));
            tx.subscriptions().insert(&held)?;
            let charge = billing_domain::charge::ChargeRef::Recurring(ids.next());
            tx.billing_records().insert(customer, &[build::billing_record(&mut ids, &held, charge)])
        })?;
    }
    let record = tx.billing_records().list_open(customer)?.remove(0);
    execute(store.url(), "UPDATE billing_records SET revision = revision + 1").expect("changed meanwhile");
    tx.billing_records().update(customer, &record)
}
