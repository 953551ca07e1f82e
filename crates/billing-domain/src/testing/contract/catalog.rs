//! Metrics and features.

use time::Duration;

use super::{Harness, Tenant};
use crate::currency::Currency;
use crate::error::{Error, Noun};
use crate::metric::{
    AggregationKind, CategoricalFilter, CategoricalOperator, Metric, MetricFilters, NumericFilter, NumericOperator,
};
use crate::organization::Organization;
use crate::plan::{Feature, Plan, PlanVersion};
use crate::store::Scope;
use crate::testing::build::{Ids, count_metric, feature, sum_metric};
use crate::testing::world::decimal;

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

pub(super) fn shows_changes_at_once(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let (plan, version) = tenant.new_plan("gold");
    let metric = tenant.build(|ids| count_metric(ids, "api_call", now));
    tenant.catalog(|tx, _| tx.metrics().insert(&metric));
    let customer = tenant.new_customer("acme").key;
    let seen = || {
        tenant.customer(customer, |tx, _| {
            Ok((
                tx.organizations().get()?.tax_rate,
                tx.currencies().list()?.len(),
                tx.metrics().get(metric.id)?.name,
                tx.plans().recall(plan.id)?.name,
                tx.plans().get_version(version.id)?.replace_with,
            ))
        })
    };
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
    let undone = tenant.try_customer(customer, |tx, _| {
        tx.organizations().add_filter_keys(&["region"])?;
        assert_eq!(tx.organizations().get()?.subscription_filter_keys, ["region"], "whoever changes it sees it");
        Err::<(), _>(Error::NotFound(Noun::Plan))
    });
    assert_eq!(undone, Err(Error::NotFound(Noun::Plan)));
    let keys = tenant.customer(customer, |tx, _| Ok(tx.organizations().get()?.subscription_filter_keys));
    assert_eq!(keys, Vec::<String>::new(), "and nobody else what was taken back");
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
