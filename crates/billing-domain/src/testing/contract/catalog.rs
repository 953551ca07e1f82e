//! Metrics and features.

use bigdecimal::BigDecimal;
use time::Duration;

use super::together::wait;
use super::{Harness, Tenant};
use crate::catalog::Catalog;
use crate::currency::Currency;
use crate::error::{Error, Noun};
use crate::id::{CustomerKey, MetricId, PlanId, PlanVersionId};
use crate::metric::{
    AggregationKind, CategoricalFilter, CategoricalOperator, Metric, MetricFilters, NumericFilter, NumericOperator,
};
use crate::organization::Organization;
use crate::plan::{Feature, Plan, PlanVersion};
use crate::store::{Answered, Question, Reply, Scope, Transaction};
use crate::testing::build::{Ids, count_metric, days_from, feature, subscription, sum_metric};
use crate::testing::world::decimal;
use crate::usage::UsageRequest;

pub(super) fn keeps_metrics(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let calls = tenant.build(|ids| count_metric(ids, "api_call", now));
    let bytes = tenant.build(|ids| sum_metric(ids, "upload", now + Duration::seconds(1)));
    let bytes = Metric { is_cost_metric: true, archived_at: Some(now + Duration::seconds(2)), ..bytes };
    tenant.catalog(|tx, _| {
        tx.metrics().insert(&calls)?;
        tx.metrics().insert(&bytes)
    });
    assert_eq!(tenant.look(|tx, _| tx.metrics().get(bytes.id)), bytes);
    assert_eq!(tenant.look(|tx, _| tx.metrics().list()), [calls, bytes], "oldest first, archived ones too");
    let absent = tenant.build(Ids::next);
    let missing = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.metrics().get(absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::Metric)));
}

pub(super) fn keeps_aggregations_and_filters(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let filters = MetricFilters {
        numeric_filters: NumericOperator::ALL
            .iter()
            .map(|operator| NumericFilter {
                property_name: "amount".to_owned(),
                operator: *operator,
                comparison_value: decimal("-12345678901234567890.000000000000001"),
            })
            .collect(),
        categorical_filters: CategoricalOperator::ALL
            .iter()
            .map(|operator| CategoricalFilter {
                property_name: "tier".to_owned(),
                operator: *operator,
                comparison_value: ["\"free\"", "", "é"].map(str::to_owned).to_vec(),
            })
            .collect(),
    };
    for kind in AggregationKind::ALL {
        let aggregation = kind.of(Some("amount".to_owned())).expect("an aggregation");
        let made = tenant.build(|ids| count_metric(ids, "api_call", now));
        let made = Metric { measure: aggregation.into(), filters: filters.clone(), ..made };
        tenant.catalog(|tx, _| tx.metrics().insert(&made));
        assert_eq!(tenant.look(|tx, _| tx.metrics().get(made.id)), made);
    }
}

pub(super) fn updates_metrics(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let made = tenant.build(|ids| count_metric(ids, "api_call", now));
    tenant.catalog(|tx, _| tx.metrics().insert(&made));
    let changed = Metric { name: "calls".to_owned(), archived_at: Some(now), ..made };
    tenant.catalog(|tx, _| tx.metrics().update(&changed));
    assert_eq!(tenant.look(|tx, _| tx.metrics().get(changed.id)), changed);
    let absent = tenant.build(|ids| count_metric(ids, "other", now));
    let missing = tenant.run(&Scope::Catalog(tenant.id), |tx, _| tx.metrics().update(&absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::Metric)));
}

/// What can be seen of a catalogue's changes: a tax rate, how many currencies, the names of a metric and a plan, and
/// which version takes the place of another.
type Seen = (Option<BigDecimal>, usize, String, String, Option<PlanVersionId>);

/// Where [`Seen`] is looked for.
#[derive(Clone, Copy)]
struct Places {
    metric: MetricId,
    plan: PlanId,
    version: PlanVersionId,
}

impl Places {
    fn look(self, tx: &mut dyn Transaction) -> Result<Seen, Error> {
        Ok((
            tx.organizations().get()?.tax_rate,
            tx.currencies().list()?.len(),
            tx.metrics().get(self.metric)?.name,
            tx.plans().get_even_deleted(self.plan)?.name,
            tx.plans().get_version(self.version)?.replace_with,
        ))
    }
}

/// Asks for nothing but what it sees.
struct Look {
    customer: CustomerKey,
    places: Places,
    seen: Option<Seen>,
    reply: Reply<Option<Seen>>,
}

impl Question for Look {
    fn customer(&self) -> CustomerKey {
        self.customer
    }

    fn metric(&self) -> MetricId {
        self.places.metric
    }

    fn prepare(&mut self, tx: &mut dyn Transaction, _catalog: &mut Catalog) -> Result<Vec<UsageRequest>, Error> {
        self.seen = Some(self.places.look(tx)?);
        Ok(Vec::new())
    }

    fn conclude(self: Box<Self>, outcome: Answered) {
        (self.reply)(match outcome {
            Answered::Known(_) => Ok(self.seen),
            Answered::Failed(error) => Err(error),
            Answered::Alone => Ok(None),
        });
    }
}

pub(super) fn shows_changes_at_once(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let see = |customer, places: Places| tenant.customer(customer, |tx, _| places.look(tx));
    let customer = shows_changes(&tenant, &see);
    let shown = tenant.customer(customer, |tx, _| {
        tx.organizations().add_filter_keys(&["region"])?;
        Ok(tx.organizations().get()?.subscription_filter_keys)
    });
    assert_eq!(shown, ["region"], "whoever changes it sees it");
}

/// A store whose customers are not where the catalogue is may keep the key: nothing is counted otherwise by one key more.
pub(super) fn takes_filter_keys_back(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let customer = tenant.new_customer("acme").key;
    let undone = tenant.try_customer(customer, |tx, _| {
        tx.organizations().add_filter_keys(&["region"])?;
        assert_eq!(tx.organizations().get()?.subscription_filter_keys, ["region"], "whoever changes it sees it");
        Err::<(), _>(Error::NotFound(Noun::Plan))
    });
    assert_eq!(undone, Err(Error::NotFound(Noun::Plan)));
    let keys = tenant.customer(customer, |tx, _| Ok(tx.organizations().get()?.subscription_filter_keys));
    assert_eq!(keys, Vec::<String>::new(), "and nobody else what was taken back");
}

pub(super) fn shows_changes_to_questions_at_once(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    shows_changes(&tenant, &|customer, places| {
        let ask = |reply| harness.store.ask(tenant.id.into(), Box::new(Look { customer, places, seen: None, reply }));
        // A store may want it asked in a transaction of its own.
        wait(ask).expect("an answer").unwrap_or_else(|| tenant.look(|tx, _| places.look(tx)))
    });
}

/// Changes what can be changed of a catalogue, with a look by `see` in between; the customer that it was seen for.
fn shows_changes(tenant: &Tenant<'_>, see: &dyn Fn(CustomerKey, Places) -> Seen) -> CustomerKey {
    let now = tenant.now();
    let (plan, version) = tenant.new_plan("gold");
    let metric = tenant.build(|ids| count_metric(ids, "api_call", now));
    tenant.catalog(|tx, _| tx.metrics().insert(&metric));
    let customer = tenant.new_customer("acme").key;
    let held = tenant.build(|ids| subscription(ids, customer, &version, days_from(now, 30)));
    tenant.customer(customer, |tx, _| tx.subscriptions().insert(&held));
    let places = Places { metric: metric.id, plan: plan.id, version: version.id };
    let seen = || see(customer, places);
    let mut expected = seen();
    assert_eq!(seen(), expected, "read before");
    tenant.catalog(|tx, _| {
        let organization = tx.organizations().get()?;
        tx.organizations().update(&Organization { tax_rate: Some(decimal("7.7")), ..organization })
    });
    expected.0 = Some(decimal("7.7"));
    assert_eq!(seen(), expected, "an organization's settings");
    let points = Currency { code: "PTS".to_owned(), name: "Points".to_owned(), symbol: "p".to_owned(), decimals: 0 };
    tenant.catalog(|tx, _| tx.currencies().insert(&points));
    expected.1 += 1;
    assert_eq!(seen(), expected, "a currency");
    let renamed = Metric { name: "calls".to_owned(), ..metric.clone() };
    tenant.catalog(|tx, _| tx.metrics().update(&renamed));
    expected.2 = "calls".to_owned();
    assert_eq!(seen(), expected, "a metric");
    let plan = Plan { name: "silver".to_owned(), ..plan.clone() };
    tenant.catalog(|tx, _| tx.plans().update(&plan));
    expected.3 = "silver".to_owned();
    assert_eq!(seen(), expected, "a plan");
    let version = PlanVersion { replace_with: Some(version.id), ..version.clone() };
    tenant.catalog(|tx, _| tx.plans().update_version(&version));
    expected.4 = Some(version.id);
    assert_eq!(seen(), expected, "a version");
    customer
}

pub(super) fn keeps_features(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let first = tenant.build(|ids| feature(ids, "b"));
    let second = Feature { description: Some("single sign-on".to_owned()), ..tenant.build(|ids| feature(ids, "a")) };
    tenant.catalog(|tx, _| tx.features().insert(&first));
    tenant.catalog(|tx, _| tx.features().insert(&second));
    assert_eq!(tenant.look(|tx, _| tx.features().get(second.id)), second);
    assert_eq!(tenant.look(|tx, _| tx.features().list()), [first, second], "oldest first");
    let absent = tenant.build(Ids::next);
    let missing = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.features().get(absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::Feature)));
}
