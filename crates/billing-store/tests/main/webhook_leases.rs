//! Leases of webhook endpoints: as many as are wanted, each to one process.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use billing_domain::id::{OrganizationId, WebhookEndpointId};
use billing_domain::store::{Deliveries, LeaseRequest, Scope, Store};
use billing_domain::testing::build::{self, Ids};
use billing_store::testing::{TestStore, vacuum};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::sql::execute;

const ORGANIZATIONS: usize = 10;
const ENDPOINTS: usize = 4 * ORGANIZATIONS;

fn request(owner: u128, limit: u32, now: OffsetDateTime) -> LeaseRequest {
    let (owner, room_of, lease) = (Uuid::from_u128(owner), BTreeMap::new(), Duration::MINUTE);
    LeaseRequest { owner, limit, most_of_each: 16, room_of, are_failing: false, now, lease }
}

/// Leases until there is nothing; which.
fn lease_all(store: &TestStore, owner: u128, limit: u32, now: OffsetDateTime) -> Vec<WebhookEndpointId> {
    let mut all = Vec::new();
    loop {
        let leased = store.lease_endpoints(&request(owner, limit, now)).expect("leased");
        assert!(leased.len() <= limit as usize, "{} of {limit}", leased.len());
        if leased.is_empty() {
            return all;
        }
        all.extend(leased.into_iter().map(|(_, endpoint)| endpoint));
    }
}

/// Endpoints of ten organizations, four each, for all of which there is a message.
fn fill(store: &TestStore, now: OffsetDateTime) {
    let mut ids = Ids::new(1);
    for _ in 0..ORGANIZATIONS {
        let organization: OrganizationId = ids.next();
        let made = (&**store as &dyn Store).run_for(&Scope::Catalog(organization), |tx, _| {
            tx.organizations().insert(&build::organization(organization, now))
        });
        made.expect("an organization");
    }
    let sql = "INSERT INTO webhook_endpoints (organization_id, id, url, event_types, public_key, secret, status, position, created_at)
            SELECT id, gen_random_uuid(), 'https://example.com', '{}', '', '', 'enabled', 0, now() FROM organizations, generate_series(1, 4);
        INSERT INTO message_counters (organization_id, last_position) SELECT id, 1 FROM organizations";
    execute(store.url(), sql).expect("endpoints");
}

#[test]
fn a_plan_made_without_endpoints_leases_no_more_than_is_wanted() {
    let (store, now) = (TestStore::new(), OffsetDateTime::now_utc());
    vacuum(store.url());
    // By then every connection of the pool keeps a plan.
    for _ in 0..60 {
        assert_eq!(lease_all(&store, 1, 5, now), []);
    }
    fill(&store, now);
    let leased: BTreeSet<_> = lease_all(&store, 1, 5, now).into_iter().collect();
    assert_eq!(leased.len(), ENDPOINTS, "each once");
}

#[test]
fn processes_that_lease_at_once_get_different_endpoints() {
    let (store, now) = (TestStore::new(), OffsetDateTime::now_utc());
    fill(&store, now);
    for round in 0..100 {
        // The leases of the round before have run out by then.
        let now = now + Duration::minutes(2 * round);
        let all: Vec<_> = thread::scope(|threads| {
            let processes = [1, 2, 3, 4].map(|owner| {
                let store = &store;
                threads.spawn(move || lease_all(store, owner, 3, now))
            });
            processes.into_iter().flat_map(|process| process.join().expect("leases")).collect()
        });
        assert!(all.len() <= ENDPOINTS, "round {round}: {} leases of {ENDPOINTS}", all.len());
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "round {round}: one endpoint twice");
    }
}
