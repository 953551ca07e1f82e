//! Metrics and features.

use time::Duration;

use super::{Harness, Tenant};
use crate::error::{Error, Noun};
use crate::metric::{
    AggregationKind, CategoricalFilter, CategoricalOperator, Metric, MetricFilters, NumericFilter, NumericOperator,
};
use crate::plan::Feature;
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
