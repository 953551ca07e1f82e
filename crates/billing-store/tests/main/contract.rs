//! Every case of the store contract, each on a database of its own.

use billing_domain::testing::contract::{Harness, all};
use billing_store::testing::TestStore;

#[test]
fn holds_on_postgres() {
    let mut failed = Vec::new();
    for (name, case) in all() {
        let store = TestStore::new();
        let harness = Harness { store: &*store, ingest: &*store, keys: &*store, queue: &*store, answers: &*store };
        let run = std::panic::AssertUnwindSafe(|| case(&harness));
        if std::panic::catch_unwind(run).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn holds_when_all_cases_share_a_database() {
    let store = TestStore::new();
    let harness = Harness { store: &*store, ingest: &*store, keys: &*store, queue: &*store, answers: &*store };
    for (_, case) in all() {
        case(&harness);
    }
}
