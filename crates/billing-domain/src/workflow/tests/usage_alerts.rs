//! Usage alerts: what fires together, and what a transaction that is not committed leaves behind.

use std::collections::BTreeSet;

use serde_json::json;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::error::StoreError;
use crate::period::PlanDuration;
use crate::store::{AlertQueue, FeedRequest, Scope, Store};
use crate::testing::world::{World, component, decimal, filters, subscription, tiers, version};
use crate::usage_alert::{AlertKind, AlertUnit};
use crate::workflow::{
    CorrectEvents, CreateSubscription, CreateUsageAlert, EventChange, WantedCorrection, correct_events,
    create_usage_alert, evaluate_usage_alerts,
};

const NOW: OffsetDateTime = datetime!(2024-01-15 12:00 UTC);

/// Alerts that were told.
fn told(world: &World) -> usize {
    let store: &dyn Store = &world.store;
    let types = vec!["usage_alert.triggered".parse().expect("a type")];
    let wanted = FeedRequest { after: 0, types, limit: 1_000 };
    let page = store.run_for(&Scope::Organization(world.organization), |tx, _| tx.messages().list(&wanted));
    page.expect("a feed").messages.len()
}

#[test]
fn what_two_subscriptions_reach_is_told_once_also_behind_a_transaction_that_failed() {
    let world = World::at(NOW);
    let metric = world.metric("call", None);
    let key = world.customer("acme");
    for held in [filters(&[("env", "a")]), filters(&[("region", "b")])] {
        let priced = component(metric.id, tiers(&[("0", "", "1")]));
        let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![priced]));
        let subscription = CreateSubscription { filters: held, ..subscription("acme", plan, NOW) };
        world.subscribe(&subscription).expect("a subscription");
    }
    world.track("acme", "call", NOW, &json!({"env": "a", "region": "b"}));
    let command = CreateUsageAlert {
        kind: AlertKind::MetricUsage,
        metric: Some(metric.id),
        threshold: decimal("1"),
        unit: AlertUnit::Absolute,
        currency_code: None,
        customer: None,
        plan_version: None,
    };
    world.catalog(|tx, now| create_usage_alert(tx, &command, now)).expect("an alert");
    let mut known = BTreeSet::new();
    let failed: Result<(), _> = world.on("acme", |tx, now| {
        evaluate_usage_alerts(tx, (key, None), &mut known, now)?;
        Err(StoreError::Overloaded.into())
    });
    assert!(failed.is_err() && told(&world) == 0, "nothing of it is kept");
    assert_eq!(known, BTreeSet::new(), "what was not committed has not fired");
    for round in 0..3 {
        world.on("acme", |tx, now| evaluate_usage_alerts(tx, (key, None), &mut known, now)).expect("looked at");
        assert_eq!(told(&world), 1, "round {round}");
    }
    assert_eq!(known.len(), 1, "it is not looked up again");
}

/// Events that are voided take the figure back, and have it looked at; what was told of an interval is told of it no more.
#[test]
fn a_threshold_that_is_crossed_again_behind_a_correction_is_told_once() {
    let world = World::at(NOW);
    let metric = world.metric("call", None);
    let key = world.customer("acme");
    let priced = component(metric.id, tiers(&[("0", "", "1")]));
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![priced]));
    world.subscribe(&subscription("acme", plan, NOW)).expect("a subscription");
    let command = CreateUsageAlert {
        kind: AlertKind::MetricUsage,
        metric: Some(metric.id),
        threshold: decimal("3"),
        unit: AlertUnit::Absolute,
        currency_code: None,
        customer: None,
        plan_version: None,
    };
    world.catalog(|tx, now| create_usage_alert(tx, &command, now)).expect("an alert");
    let look = || {
        let marked = world.store.list_marked(1_000).expect("marks");
        world.store.drop_marks(&marked).expect("dropped");
        let mut known = BTreeSet::new();
        world.on("acme", |tx, now| evaluate_usage_alerts(tx, (key, None), &mut known, now)).expect("looked at");
        (marked.iter().any(|one| one.customer == key), told(&world))
    };
    let void = |number: u32| {
        let (idempotency_id, attr) = (format!("event-{number}"), "events.0".to_owned());
        let corrections = vec![WantedCorrection { idempotency_id, change: EventChange::Void, attr }];
        let command = CorrectEvents { customer: key, corrections, beyond_window: false, by: None, reason: None };
        world.on("acme", |tx, now| correct_events(tx, &command, now)).expect("corrected");
    };
    look();
    world.track_many("acme", "call", NOW, 3);
    void(1);
    assert_eq!(look(), (true, 0), "two of three when somebody looks");
    world.track_many("acme", "call", NOW, 1);
    assert_eq!(look(), (true, 1), "three");
    void(2);
    assert_eq!(look(), (true, 1), "two again, and somebody has looked");
    world.track_many("acme", "call", NOW, 2);
    assert_eq!(look(), (true, 1), "four, of the same interval");
}
