//! The queue of due customers, after it was empty for long.

use std::collections::BTreeSet;

use billing_domain::Error;
use billing_domain::id::OrganizationId;
use billing_domain::store::{BillingQueue, Scope, Store, Transaction};
use billing_domain::testing::build::{self, Ids};
use billing_store::testing::{TestStore, vacuum};
use time::{Duration, OffsetDateTime};

#[test]
fn a_plan_made_for_an_empty_queue_leases_no_more_than_is_wanted() {
    const CUSTOMERS: usize = 60;
    const WANTED: u32 = 5;
    let store = TestStore::new();
    let (hour, now) = (Duration::hours(1), OffsetDateTime::now_utc());
    vacuum(store.url());
    // By then every connection of the pool keeps a plan.
    for _ in 0..60 {
        assert_eq!(store.lease_due(WANTED, hour, None, &[]), Ok(Vec::new()));
    }
    let organization: OrganizationId = Ids::new(1).next();
    let run = |scope, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), Error>| {
        let store: &dyn Store = &*store;
        store.run_for(&scope, |tx, _| work(tx)).expect("work");
    };
    run(Scope::Catalog(organization), &mut |tx| tx.organizations().insert(&build::organization(organization, now)));
    for number in 0..CUSTOMERS {
        let customer = build::customer(organization, &format!("customer {number}"), now);
        run(Scope::Customer(organization, customer.key), &mut |tx| {
            tx.customers().insert(&customer)?;
            tx.customers().set_billing_due(customer.key, Some(now - hour))
        });
    }
    let mut leased = BTreeSet::new();
    for _ in 0..CUSTOMERS / WANTED as usize {
        let batch = store.lease_due(WANTED, hour, None, &[]).expect("leased");
        assert_eq!(batch.len(), WANTED as usize, "as many as are wanted");
        leased.extend(batch.into_iter().map(|due| due.customer));
    }
    assert_eq!(leased.len(), CUSTOMERS, "each once");
}
