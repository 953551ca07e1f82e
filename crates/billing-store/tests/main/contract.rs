//! Every case of the store contract, each on a database of its own.

use std::sync::Mutex;
use std::thread;

use billing_domain::testing::contract::{Harness, all};
use billing_store::testing::TestStore;

use crate::sql::{execute, query};

/// Cases that are held at a time: most of each is waiting for its database to be made.
const AT_ONCE: usize = 4;

/// Runs every case on a store of its own.
fn hold_each(store: impl Fn() -> TestStore + Sync) {
    let cases = Mutex::new(all().into_iter());
    let hold = || {
        let mut failed = Vec::new();
        loop {
            let Some((name, case)) = cases.lock().expect("nobody panics with it").next() else { return failed };
            let store = store();
            let run = std::panic::AssertUnwindSafe(|| case(&Harness::of(&*store)));
            if std::panic::catch_unwind(run).is_err() {
                failed.push(name);
            }
        }
    };
    let failed: Vec<_> = thread::scope(|threads| {
        let holding: Vec<_> = (0..AT_ONCE).map(|_| threads.spawn(hold)).collect();
        holding.into_iter().flat_map(|one| one.join().expect("a store")).collect()
    });
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn holds_on_postgres() {
    hold_each(TestStore::new);
}

#[test]
fn holds_with_customers_in_several_lanes() {
    hold_each(|| TestStore::with_lanes(4));
}

#[test]
fn holds_when_all_cases_share_a_database() {
    let store = TestStore::new();
    let harness = Harness::of(&*store);
    for (_, case) in all() {
        case(&harness);
    }
}

/// What a process remembers of a catalogue is as fresh as the triggers that version it: each of them is missed.
#[test]
fn a_change_without_a_new_version_is_noticed() {
    let names = ["catalog::shows_changes_at_once", "catalog::shows_changes_to_questions_at_once"];
    let cases: Vec<_> = all().into_iter().filter(|(name, _)| names.contains(name)).collect();
    assert_eq!(cases.len(), names.len());
    for table in ["organizations", "currencies", "metrics", "plans", "plan_versions"] {
        for (name, case) in &cases {
            let store = TestStore::new();
            execute(store.url(), &format!("DROP TRIGGER {table}_catalog_version ON {table}")).expect(table);
            let harness = Harness::of(&*store);
            let run = std::panic::AssertUnwindSafe(|| case(&harness));
            assert!(std::panic::catch_unwind(run).is_err(), "{name}: nobody misses the catalog_version of {table}");
        }
    }
}

#[test]
fn whatever_is_cached_has_a_version() {
    let store = TestStore::new();
    let versioned = query(
        store.url(),
        "SELECT tgrelid::regclass::text AS value FROM pg_trigger
        WHERE tgfoid = 'renew_catalog_version'::regproc AND tgenabled = 'O' AND tgtype & 1 = 1 ORDER BY 1",
    );
    let remembered = [
        "components",
        "currencies",
        "metrics",
        "organizations",
        "plan_version_features",
        "plan_version_targets",
        "plan_versions",
        "plans",
        "recurring_charges",
        "usage_alerts",
    ];
    assert_eq!(versioned, remembered);
}
