use time::Duration;
use time::macros::datetime;

use super::MemoryStore;
use crate::idempotency::{Answer, Claim, IdempotencyStore, RETENTION_DAYS};
use crate::store::{Scope, Store};
use crate::testing::contract::{Harness, all};
use crate::workflow::{CreateOrganization, create_organization};

#[test]
fn holds_the_contract_of_a_store() {
    let mut failed = Vec::new();
    for (name, case) in all() {
        let store = MemoryStore::at(datetime!(2026-03-31 12:00 UTC));
        let harness = Harness { store: &store, ingest: &store, keys: &store, queue: &store, answers: &store };
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&harness))).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn holds_it_when_all_cases_share_a_store() {
    let store = MemoryStore::at(datetime!(2026-03-31 12:00 UTC));
    let harness = Harness { store: &store, ingest: &store, keys: &store, queue: &store, answers: &store };
    for (_, case) in all() {
        case(&harness);
    }
}

#[test]
fn forgets_answers_in_time() {
    let now = datetime!(2026-03-31 12:00 UTC);
    let store = MemoryStore::at(now);
    let organization = store.new_organization();
    let create = CreateOrganization { name: "Acme".to_owned() };
    let run: &dyn Store = &store;
    run.run_for(&Scope::Catalog(organization), |tx, now| create_organization(tx, &create, now)).expect("made");
    let keep = |key: &str| {
        let claim = Claim { key: key.to_owned(), fingerprint: Vec::new() };
        store.keep_answer(organization, &claim, &Answer { status: 200, text: String::new() }).expect("kept")
    };
    let (first, second) = (keep("first"), keep("second"));
    assert_eq!(first, second);
    store.set_now(now + Duration::days(i64::from(RETENTION_DAYS)));
    keep("third");
    assert_eq!(store.forget_answers(9), Ok(0), "the last instant is still inside");
    store.set_now(now + Duration::days(i64::from(RETENTION_DAYS)) + Duration::MICROSECOND);
    assert_eq!((store.forget_answers(1), store.forget_answers(9)), (Ok(1), Ok(1)), "as many as asked for");
    assert_eq!(store.find_answer(organization, "third").expect("no error"), Some(first));
}
