//! Usage alerts of many customers are looked at together: what that takes does not grow with the customers, and each figure is the
//! one that an access check answers.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use billing_domain::event::{Event, Ingested};
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::metric::Metric;
use billing_domain::plan::PlanVersion;
use billing_domain::store::{EventIngest, Scope, Store, Window};
use billing_domain::subscription::Subscription;
use billing_domain::testing::build::{self, Ids};
use billing_domain::usage_alert::{AlertKind, AlertScope, AlertUnit, Firing, UsageAlert};
use billing_domain::workflow::evaluate_usage_alerts;
use billing_store::testing::{TestStore, count_statements, statements_sent};
use time::{Duration, OffsetDateTime};

use crate::sql::query;

pub struct World {
    pub store: TestStore,
    pub organization: OrganizationId,
    pub customers: Vec<String>,
    pub metric: Metric,
}

impl World {
    /// Customers with a subscription each, since three days ago off the hour, under one alert about everybody's calls.
    pub fn new(count: usize, threshold: &str) -> Self {
        let store = TestStore::in_one_lane();
        let ids = &mut Ids::new(1);
        let organization = ids.next();
        let began = OffsetDateTime::now_utc().replace_time(time::Time::MIDNIGHT) - Duration::days(3);
        let (opened, began) = (began - Duration::days(20), began + Duration::minutes(617));
        let metric = build::count_metric(ids, "call", opened);
        let plan = build::plan(ids, "Pro", opened);
        let components = vec![build::component(ids, metric.id)];
        let version = PlanVersion { components, ..build::plan_version(ids, &plan, opened) };
        let customers: Vec<String> = (0..count).map(|number| format!("customer-{number}")).collect();
        let alert = alert(ids, &metric, threshold, opened);
        let of_each: Vec<_> = customers
            .iter()
            .map(|name| {
                let customer = build::customer(organization, name, opened);
                let period = build::days_from(began, 30);
                let held: Subscription = build::subscription(ids, customer.key, &version, period);
                (customer, held)
            })
            .collect();
        let made = (&*store as &dyn Store).run_for(&Scope::Catalog(organization), |tx, _| {
            tx.organizations().insert(&build::organization(organization, opened))?;
            tx.metrics().insert(&metric)?;
            tx.plans().insert(&plan)?;
            tx.plans().insert_version(&version)?;
            tx.usage_alerts().insert(&alert)?;
            of_each.iter().try_for_each(|(customer, held)| {
                tx.customers().insert(customer)?;
                tx.subscriptions().insert(held)
            })
        });
        made.expect("a world");
        Self { store, organization, customers, metric }
    }

    fn send(&self, name: &str, id: &str, time: OffsetDateTime) {
        let event = Event { properties: build::properties("{}"), ..build::event(name, "call", id, time) };
        let stored = self.store.ingest(self.organization, &[event], Window::Enforced);
        assert_eq!(stored, Ok(vec![Ingested::Stored]));
    }

    pub fn key(&self, name: &str) -> CustomerKey {
        CustomerKey::derive(self.organization, &name.parse().expect("an id"))
    }

    /// Looks at the first customers, knowing nothing of what has fired; how many statements that takes.
    fn look_at(&self, count: usize) -> u64 {
        let keys: Vec<CustomerKey> = self.customers[..count].iter().map(|name| self.key(name)).collect();
        let before = statements_sent(self.store.url());
        let look = || {
            let mut known = BTreeSet::<Firing>::new();
            let outcomes = self.store.run_each(self.organization, &keys, &mut |tx, customer, now| {
                evaluate_usage_alerts(tx, (customer, None), &mut known, now).map(drop)
            });
            assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        };
        thread::scope(|threads| {
            // Statements of workers are counted.
            let worker = thread::Builder::new().name("batch-worker".to_owned()).spawn_scoped(threads, look);
            worker.expect("a thread").join().expect("no panic");
        });
        statements_sent(self.store.url()) - before
    }

    /// For whom the alert has fired, and when.
    pub fn fired(&self) -> BTreeMap<String, String> {
        let told = "SELECT id::text AS value FROM messages WHERE message_type = 'usage_alert.triggered'";
        let fired = "SELECT customer_key || ' ' || written_at AS value FROM usage_alert_firings";
        let rows = query(self.store.url(), fired);
        assert_eq!(rows.len(), query(self.store.url(), told).len(), "each with its message");
        let apart = |row: String| row.split_once(' ').map(|(key, at)| (key.to_owned(), at.to_owned()));
        rows.into_iter().filter_map(apart).collect()
    }
}

pub fn alert(ids: &mut Ids, metric: &Metric, threshold: &str, at: OffsetDateTime) -> UsageAlert {
    UsageAlert {
        id: ids.next(),
        kind: AlertKind::MetricUsage,
        metric: Some(metric.id),
        threshold: threshold.parse().expect("a number"),
        unit: AlertUnit::Absolute,
        currency_code: None,
        scope: AlertScope::Everybody,
        created_at: at,
    }
}

#[test]
fn ten_customers_take_no_more_statements_than_two() {
    count_statements();
    let world = World::new(10, "2");
    let now = OffsetDateTime::now_utc();
    for name in &world.customers {
        world.send(name, &format!("{name} 1"), now - Duration::days(1));
        world.send(name, &format!("{name} 2"), now);
    }
    let of_two = world.look_at(2);
    assert_eq!(world.fired().len(), 2, "both have reached it");
    let of_ten = world.look_at(10);
    assert_eq!(world.fired().len(), 10, "and the others, each once");
    // Firings and messages are written when there are any, and what the catalogue has was read with the first.
    assert!(of_ten <= of_two, "{of_two} statements for two, {of_ten} for ten");
    let before = world.fired();
    world.look_at(10);
    assert_eq!(world.fired(), before, "nothing fires twice, whoever knows nothing of it");
}

/// The hour that runs is counted by its bucket, without what is dated behind now; the hour in which the period began, without what is
/// dated before it.
#[test]
fn what_lies_outside_of_the_period_reaches_nothing() {
    let world = World::new(3, "3");
    let now = OffsetDateTime::now_utc();
    let began = now.replace_time(time::Time::MIDNIGHT) - Duration::days(3) + Duration::minutes(617);
    let in_an_instant = now + Duration::seconds(40);
    for (name, last) in world.customers.iter().zip([in_an_instant, began - Duration::SECOND, began]) {
        world.send(name, &format!("{name} 1"), began + Duration::MINUTE);
        world.send(name, &format!("{name} 2"), now);
        world.send(name, &format!("{name} 3"), last);
    }
    world.look_at(3);
    let inside = world.key(&world.customers[2]).uuid().to_string();
    assert_eq!(world.fired().into_keys().collect::<Vec<_>>(), [inside], "only whose third event is in the period");
}
