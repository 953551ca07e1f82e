use time::Duration;
use time::macros::datetime;

use super::{MemoryStore, State};
use crate::customer::Customer;
use crate::idempotency::{Answer, Claim, IdempotencyStore, RETENTION_DAYS};
use crate::store::{Scope, Store};
use crate::testing::build;
use crate::testing::contract::{Harness, all};
use crate::workflow::{CreateOrganization, create_organization};

#[test]
fn holds_the_contract_of_a_store() {
    let mut failed = Vec::new();
    for (name, case) in all() {
        let store = MemoryStore::at(datetime!(2026-03-31 12:00 UTC));
        let harness = Harness::of(&store);
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&harness))).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn holds_it_when_all_cases_share_a_store() {
    let store = MemoryStore::at(datetime!(2026-03-31 12:00 UTC));
    let harness = Harness::of(&store);
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

#[test]
fn a_transaction_copies_what_it_changes_and_nothing_else() {
    let store = MemoryStore::at(datetime!(2026-03-31 12:00 UTC));
    let organization = store.new_organization();
    let scope = |customer| Scope::Customer(organization, customer);
    let now = datetime!(2026-03-31 12:00 UTC);
    store
        .run(&Scope::Catalog(organization), &mut |tx, _| {
            tx.organizations().insert(&build::organization(organization, now))
        })
        .expect("an organization");
    let [one, other] = ["one", "other"].map(|id| build::customer(organization, id, now));
    for customer in [&one, &other] {
        store.run(&scope(customer.key), &mut |tx, _| tx.customers().insert(customer)).expect("a customer");
    }
    let before = store.lock().clone();
    let changed = Customer { email: Some("one@acme.io".to_owned()), ..one.clone() };
    store.run(&scope(one.key), &mut |tx, _| tx.customers().update(&changed)).expect("a change");
    let after = store.lock().clone();
    let tenant = |state: &State| state.tenants.get(&organization).cloned().expect("the organization");
    let account = |state: &State, key| tenant(state).accounts.get(&key).cloned().expect("the account");
    assert!(!account(&before, one.key).is(&account(&after, one.key)), "what was changed");
    assert!(account(&before, one.key).events.is(&account(&after, one.key).events), "but not its events");
    assert!(account(&before, other.key).is(&account(&after, other.key)), "nor another customer");
    assert!(tenant(&before).versions.is(&tenant(&after).versions), "nor the catalogue");
}
