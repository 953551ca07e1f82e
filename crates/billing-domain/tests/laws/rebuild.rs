//! Every usage line can be counted again from the events that it saw, whatever arrived later.

use std::collections::BTreeMap;

use billing_domain::id::MetricId;
use billing_domain::invoice::Trace;
use billing_domain::metric::Metric;
use billing_domain::period::{Interval, PlanDuration};
use billing_domain::testing::world::{World, component, subscription, tiers, version};
use billing_domain::tier::TierSchedule;
use billing_domain::usage::{UsageRequest, fold};
use proptest::prelude::*;
use serde_json::json;
use time::{Duration, OffsetDateTime};

use crate::fewer_laws;
use crate::life::{any_interval, any_start};
use crate::values::any_schedule;

/// Time goes on by hours, and then events arrive: of which metric, dated how many hours ago, and how much.
type Step = (i64, Vec<(usize, i64, i64)>);

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let late = prop_oneof![2 => 0..30_i64, 1 => 0..24 * 40_i64];
    let events = prop::collection::vec((0..2_usize, late, -20..200_i64), 0..5);
    prop::collection::vec((1..24 * 12_i64, events), 1..15)
}

/// Lives it, and answers how many lines were counted again, and for how many of them more has arrived since.
fn rebuild(
    start: OffsetDateTime,
    components: [(TierSchedule, Option<Interval>, Option<Interval>); 2],
    steps: &[Step],
) -> (usize, usize) {
    let world = World::at(start);
    // One adds up, one counts.
    let metrics: [Metric; 2] = [world.metric("added", Some("n")), world.metric("counted", None)];
    let components =
        components.into_iter().zip(&metrics).map(|((tiers, invoicing_interval, reset_interval), metric)| {
            let mut component = component(metric.id, tiers);
            (component.invoicing_interval, component.reset_interval) = (invoicing_interval, reset_interval);
            component
        });
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), components.collect()));
    let customer = world.customer("acme");
    world.subscribe(&subscription("acme", plan, start)).expect("subscribed");
    let mut now = start;
    for (hours, events) in steps {
        now += Duration::hours(*hours);
        world.advance("acme", now);
        for (metric, hours_ago, amount) in events {
            let time = now - Duration::hours(*hours_ago);
            world.track("acme", &metrics[*metric].event_name, time, &json!({ "n": amount }));
        }
    }
    world.advance("acme", now + Duration::days(75));
    let of_id: BTreeMap<MetricId, &Metric> = metrics.iter().map(|metric| (metric.id, metric)).collect();
    let all = world.store.arrived(world.organization, customer, u64::MAX);
    let (mut lines, mut outdated) = (0, 0);
    for line in world.invoices("acme").iter().flat_map(|invoice| &invoice.lines) {
        let Trace::UsageCharge { metric, window, event_count, last_arrival, quantity, .. } = &line.trace else {
            continue;
        };
        let (metric, filters) = (of_id[&metric.metric_id].clone(), metric.subscription_filters.clone());
        let request = UsageRequest::billed(customer, metric, filters, *window, window);
        let again = fold(&request, &world.store.arrived(world.organization, customer, *last_arrival));
        assert_eq!((&again.quantity, again.event_count), (quantity, *event_count), "{line:?}");
        lines += 1;
        outdated += usize::from(fold(&request, &all) != again);
    }
    (lines, outdated)
}

proptest! {
    #![proptest_config(fewer_laws())]

    #[test]
    fn usage_lines_are_what_the_events_said_that_they_saw(
        start in any_start(),
        components in prop::array::uniform2((any_schedule(), any_interval(), any_interval())),
        steps in any_steps(),
    ) {
        rebuild(start, components, &steps);
    }
}

#[test]
fn a_late_event_is_told_from_those_that_were_there() {
    let start = crate::life::START;
    let priced = || (tiers(&[("0", "", "1")]), None, None);
    let steps = [(24, vec![(1, 1, 0)]), (24 * 31, vec![(1, 24 * 20, 0), (1, 1, 0)])];
    let (lines, outdated) = rebuild(start, [priced(), priced()], &steps);
    assert!(lines > outdated && outdated == 1, "the first month's count, and no other line: {outdated} of {lines}");
}
