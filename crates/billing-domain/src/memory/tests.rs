use time::macros::datetime;

use super::MemoryStore;
use crate::testing::contract::{Harness, all};

#[test]
fn holds_the_contract_of_a_store() {
    let mut failed = Vec::new();
    for (name, case) in all() {
        let store = MemoryStore::at(datetime!(2026-03-31 12:00 UTC));
        let harness = Harness { store: &store, ingest: &store, keys: &store, queue: &store };
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&harness))).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn holds_it_when_all_cases_share_a_store() {
    let store = MemoryStore::at(datetime!(2026-03-31 12:00 UTC));
    let harness = Harness { store: &store, ingest: &store, keys: &store, queue: &store };
    for (_, case) in all() {
        case(&harness);
    }
}
