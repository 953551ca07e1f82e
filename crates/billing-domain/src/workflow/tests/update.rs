use serde_json::json;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::decimal::plain;
use crate::error::{Error, FieldCode, FieldErrors, Refusal};
use crate::id::{PlanId, SubscriptionId};
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::ChargeTiming::InAdvance;
use crate::subscription::{InvoicingBehavior, Subscription, SwitchUsageBehavior};
use crate::testing::world::{World, component, fee, subscription, tiers, version};
use crate::workflow::{
    FindSubscriptions, MatchingChange, UpdateMatching, UpdateSubscription, update_matching, update_subscription,
};

/// A month of 30 days.
const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const NOW: OffsetDateTime = datetime!(2024-04-11 00:00 UTC);
const LATER: OffsetDateTime = datetime!(2024-07-10 00:00 UTC);

fn update(world: &World, id: SubscriptionId, end: Option<OffsetDateTime>) -> Result<Subscription, Error> {
    let customer = world.key("acme");
    let command = UpdateSubscription { customer, subscription: id, end, turn_off_auto_renew: true, metadata: None };
    world.on("acme", |tx, now| update_subscription(tx, &command, now))
}

fn subscribed() -> (World, SubscriptionId) {
    let world = World::at(START);
    let metric = world.metric("call", None).id;
    let plan = world.plan(
        Some(PlanDuration::Monthly),
        version(vec![fee("30", InAdvance)], vec![component(metric, tiers(&[("0", "", "0.1")]))]),
    );
    world.customer("acme");
    let id = world.subscribe(&subscription("acme", plan, START)).expect("subscribed").id;
    for day in 0..60 {
        world.track_many("acme", "call", START + time::Duration::days(day), 1);
    }
    world.store.set_now(NOW);
    (world, id)
}

#[test]
fn another_end_is_billed_or_given_back_at_that_end() {
    #[rustfmt::skip]
    let cases = [
        // end,                                 second, credit, why
        (None,                                  "3",    "0",    "the end as it was: 30 calls"),
        (Some(datetime!(2024-04-16 00:00 UTC)), "0",    "13.5", "half the fee back, 1.5 of it for 15 calls"),
        (Some(datetime!(2024-05-16 00:00 UTC)), "19.5", "0",    "half a fee more, and 45 calls"),
    ];
    for (end, second, credit, why) in cases {
        let (world, id) = subscribed();
        let updated = update(&world, id, end).expect("updated");
        assert_eq!(updated.period.end(), end.unwrap_or(datetime!(2024-05-01 00:00 UTC)), "{why}");
        world.advance("acme", LATER);
        let amounts: Vec<_> = world.invoices("acme").iter().map(|invoice| plain(&invoice.amount)).collect();
        assert_eq!(amounts, ["30", second], "{why}");
        let key = world.key("acme");
        let ledgers = world.on("acme", |tx, _| tx.credits().list(key)).expect("credits");
        assert_eq!(plain(&ledgers.iter().map(|ledger| ledger.remaining()).sum()), credit, "{why}");
        assert_eq!(world.subscriptions("acme").len(), 1, "{why}: renewal was turned off");
    }
}

#[test]
fn reset_intervals_come_and_go_with_the_end() {
    let run = |end: Option<OffsetDateTime>| {
        let world = World::at(START);
        let metric = world.metric("call", None).id;
        let mut weekly = component(metric, tiers(&[("0", "1", "free"), ("1", "", "1")]));
        weekly.reset_interval = Some(Interval::new(IntervalUnit::Week, 1).expect("an interval"));
        let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![weekly]));
        world.customer("acme");
        let id = world.subscribe(&subscription("acme", plan, START)).expect("subscribed").id;
        for day in 0..60 {
            world.track_many("acme", "call", START + time::Duration::days(day), 1);
        }
        world.store.set_now(NOW);
        update(&world, id, end).expect("updated");
        world.advance("acme", LATER);
        plain(&world.invoices("acme").iter().map(|invoice| &invoice.amount).sum())
    };
    assert_eq!(run(None), "25", "30 days in five weeks, one free in each");
    assert_eq!(run(Some(datetime!(2024-04-15 00:00 UTC))), "12", "two weeks");
    assert_eq!(run(Some(datetime!(2024-05-10 00:00 UTC))), "33", "39 days in six weeks");
}

#[test]
fn the_end_is_held_to_the_rules() {
    let (world, id) = subscribed();
    for end in [START, NOW] {
        let Err(Error::Fields(errors)) = update(&world, id, Some(end)) else { panic!("{end}: refused") };
        assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("end_date", FieldCode::Invalid));
    }
    assert!(world.subscription("acme", id).auto_renew, "a refused update changes nothing");

    let plan = world.subscription("acme", id).plan;
    let may = world.subscription("acme", id).period.end();
    let mut next = subscription("acme", plan, may);
    next.auto_renew = false;
    world.subscribe(&next).expect("the month after");
    let refused = update(&world, id, Some(may + time::Duration::days(1)));
    assert_eq!(refused, Err(Refusal::OverlappingPlans.into()));
    update(&world, id, None).expect("renewal turned off");
    world.advance("acme", LATER);
    assert_eq!(update(&world, id, None), Err(Refusal::AlreadyEnded.into()));
}

#[test]
fn metadata_is_replaced_as_a_whole() {
    let (world, id) = subscribed();
    let customer = world.key("acme");
    let metadata = json!({"crm": "42"}).as_object().cloned();
    let command = UpdateSubscription {
        customer,
        subscription: id,
        end: None,
        turn_off_auto_renew: false,
        metadata: metadata.clone(),
    };
    let updated = world.on("acme", |tx, now| update_subscription(tx, &command, now)).expect("updated");
    assert_eq!((Some(updated.metadata), updated.auto_renew), (metadata, true));
}

fn matching(customer: &str, plan: PlanId, change: MatchingChange) -> UpdateMatching {
    let customer = customer.parse().expect("an id");
    UpdateMatching { wanted: FindSubscriptions { customer, plan: Some(plan), filters: Default::default() }, change }
}

#[test]
fn what_is_wrong_with_a_change_of_all_that_match_is_said_at_once() {
    let (world, id) = subscribed();
    let held = world.subscriptions("acme").into_iter().find(|subscription| subscription.id == id).expect("subscribed");
    let nobodys = PlanId::from(uuid::Uuid::nil());
    let switch = |plan| MatchingChange::Plan {
        plan,
        invoicing_behavior: InvoicingBehavior::InvoiceNow,
        usage_behavior: SwitchUsageBehavior::TransferToNewSubscription,
    };
    let end = |end| MatchingChange::End { end: Some(end), turn_off_auto_renew: true };
    #[rustfmt::skip]
    let cases: [(UpdateMatching, &[&str], &str); 5] = [
        (matching("nobody", nobodys, switch(nobodys)),   &["customer_id", "plan_id", "replace_plan_id"], "nothing of it is there"),
        (matching("acme", held.plan, switch(nobodys)),   &["replace_plan_id"],                           "named as it was sent"),
        (matching("acme", held.plan, switch(held.plan)), &["replace_plan_id"],                           "the plan that it has"),
        (matching("nobody", nobodys, end(START)),        &["customer_id", "plan_id", "end_date"],        "and an end that has passed"),
        (matching("acme", held.plan, end(NOW)),          &["end_date"],                                  "this instant is over"),
    ];
    for (command, expected, why) in cases {
        let refused = world.on("acme", |tx, now| update_matching(tx, &command, now)).expect_err(why);
        let Error::Fields(FieldErrors(faults)) = refused else { panic!("{why}: {refused}") };
        assert_eq!(faults.iter().map(|fault| fault.attr.as_str()).collect::<Vec<_>>(), expected, "{why}");
    }
    assert_eq!(world.subscriptions("acme"), std::slice::from_ref(&held), "nothing has changed");
    let command = matching("acme", held.plan, end(datetime!(2024-04-16 00:00 UTC)));
    let changed = world.on("acme", |tx, now| update_matching(tx, &command, now)).expect("updated");
    assert_eq!(
        (changed.len(), changed[0].period.end(), changed[0].auto_renew),
        (1, datetime!(2024-04-16 00:00 UTC), false)
    );
}
