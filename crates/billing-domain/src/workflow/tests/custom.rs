//! Custom metrics: billed like any other, and left for another day when they fail.

use serde_json::json;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::custom_sql::CustomSql;
use crate::decimal::plain;
use crate::error::{Error, Refusal};
use crate::invoice::Trace;
use crate::metric::{Measure, MetricFilters};
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::subscription::SubscriptionFilters;
use crate::testing::world::{World, component, fee, subscription, tiers, version};
use crate::workflow::{CheckMetricAccess, CreateMetric, check_metric_access, create_metric};

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);
const END: OffsetDateTime = datetime!(2024-02-01 00:00 UTC);

/// The share of bad calls in percent: no number while there was no good one and a bad one came.
const SHARE: &str = "SELECT CASE WHEN COUNT(*) = 0 THEN 0 ELSE 100 * SUM((properties ->> 'bad')::numeric)
    / SUM((properties ->> 'good')::numeric) END AS usage_qty FROM events WHERE time_created >= start_date";

fn subscribed() -> (World, crate::metric::Metric) {
    let world = World::at(START);
    let command = CreateMetric {
        name: Some("Share".to_owned()),
        event_name: String::new(),
        measure: Measure::Custom(CustomSql::parse(SHARE).expect("a query")),
        filters: MetricFilters::default(),
        is_cost_metric: false,
    };
    let metric = world.catalog(|tx, now| create_metric(tx, &command, now)).expect("a metric");
    let components = vec![component(metric.id, tiers(&[("0", "", "1")]))];
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], components));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    (world, metric)
}

fn lines(world: &World) -> Vec<String> {
    let invoices = world.invoices("acme").into_iter();
    let line = |line: crate::invoice::LineItem| format!("{} {}", line.name, plain(&line.amount));
    invoices.flat_map(|invoice| invoice.lines.into_iter().map(line)).collect()
}

#[test]
fn a_failure_holds_up_nothing_else_and_is_billed_when_it_is_over() {
    let (world, metric) = subscribed();
    world.track("acme", "call", START + Duration::DAY, &json!({"good": 0, "bad": 3}));
    let question = CheckMetricAccess {
        customer: "acme".parse().expect("an id"),
        metric: metric.id,
        filters: SubscriptionFilters::none(),
    };
    world.store.set_now(START + Duration::days(2));
    let refused = world.catalog(|tx, now| check_metric_access(tx, &question, now)).expect_err("no usage, no answer");
    assert!(matches!(refused, Error::Refused(Refusal::CustomMetricFailed(_))), "{refused}");

    world.advance("acme", END + Duration::HOUR);
    assert_eq!(lines(&world), ["Pro Flat Fee 30", "Share - Not Billed 0", "Pro Flat Fee 30"]);
    let invoices = world.invoices("acme");
    let trace = &invoices[1].lines.iter().find(|line| line.name == "Share - Not Billed").expect("a line").trace;
    let Trace::UsageNotBilled { reason, window, .. } = trace else { panic!("it says what it is: {trace:?}") };
    assert!(reason.contains("divided by zero"), "{reason}");
    assert_eq!((window.start(), window.end()), (START, END));

    // A late event makes a number of it; the next attempt, a day after the first, bills it.
    world.track("acme", "call", START + Duration::days(3), &json!({"good": 12, "bad": 0}));
    world.advance("acme", END + Duration::days(3));
    assert_eq!(lines(&world)[3..], ["Share 25"]);
    let issued = world.invoices("acme")[2].issued_at;
    assert_eq!(issued, END + Duration::DAY + Duration::minutes(30), "at the next attempt, however late the run was");
}

#[test]
fn attempts_go_on_day_by_day_however_the_run_comes_by() {
    let bill = |steps: &[i64]| {
        let (world, _) = subscribed();
        world.track("acme", "call", START + Duration::DAY, &json!({"good": 0, "bad": 3}));
        for days in steps {
            world.advance("acme", END + Duration::days(*days));
        }
        let of = |invoice: crate::invoice::Invoice| (invoice.issued_at, plain(&invoice.amount), invoice.lines.len());
        world.invoices("acme").into_iter().map(of).collect::<Vec<_>>()
    };
    let whole = bill(&[70]);
    assert_eq!(whole, bill(&[1, 2, 3, 40, 70]));
    assert_eq!(whole, bill(&[29, 30, 70]));
}
