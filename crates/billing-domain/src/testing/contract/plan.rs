//! Plans and their versions.

use std::collections::BTreeMap;

use time::Duration;

use super::{Harness, Tenant};
use crate::error::{Error, Noun};
use crate::period::{Anchors, Interval, IntervalUnit};
use crate::plan::{
    ChargeBehavior, ChargeTiming, Component, ExternalLink, Plan, PlanVersion, PrepaidCharge, PriceAdjustment,
    PriceAdjustmentKind, RecurringCharge, TargetCustomer,
};
use crate::store::{PageRequest, Scope, VersionHolder};
use crate::test_clock::TestClock;
use crate::testing::build::{
    Ids, component, count_metric, customer, days_from, feature, plan, plan_version, recurring_charge, subscription,
    sum_metric,
};
use crate::testing::world::{decimal, tiers};
use crate::tier::{BatchRounding, Tier, TierPrice, TierSchedule};

pub(super) fn keeps_plans(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let made = Plan {
        description: Some("the good one".to_owned()),
        duration: None,
        tags: vec!["Public".to_owned(), "eu".to_owned()],
        external_links: vec![ExternalLink { source: "stripe".to_owned(), external_plan_id: "p_1".to_owned() }],
        ..tenant.build(|ids| plan(ids, "gold", now))
    };
    tenant.catalog(|tx, _| tx.plans().insert(&made));
    assert_eq!(tenant.look(|tx, _| tx.plans().get(made.id)), made);
    let absent = tenant.build(Ids::next);
    let missing = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.plans().get(absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::Plan)));
}

pub(super) fn lists_plans_newest_first(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let make = |name: &str, age_s: i64| {
        let made = tenant.build(|ids| plan(ids, name, now - Duration::seconds(age_s)));
        tenant.catalog(|tx, _| tx.plans().insert(&made));
        made
    };
    let (old, b, a) = (make("old", 5), make("b", 1), make("a", 1));
    assert_eq!(tenant.look(|tx, _| tx.plans().list()), [a, b, old], "newest first, then by name");
}

fn full_components(ids: &mut Ids, prepaid: crate::id::MetricId, metered: crate::id::MetricId) -> Vec<Component> {
    let bulk = vec![
        Tier {
            range_start: decimal("0"),
            range_end: Some(decimal("1000.5")),
            price: TierPrice::Flat { cost: decimal("5") },
        },
        Tier {
            range_start: decimal("1000.5"),
            range_end: None,
            price: TierPrice::PerUnit {
                cost_per_batch: decimal("0.000000000000001"),
                // The greatest whole number that a body may hold is more than 64 bits hold.
                metric_units_per_batch: decimal("99999999999999999999"),
                batch_rounding: Some(BatchRounding::RoundUp),
            },
        },
    ];
    let first = Component {
        tiers: TierSchedule::new(bulk, true).expect("valid tiers"),
        reset_interval: Interval::new(IntervalUnit::Week, 2).ok(),
        prepaid_charge: Some(PrepaidCharge { units: Some(decimal("100.25")), behavior: ChargeBehavior::Full }),
        ..component(ids, prepaid)
    };
    let second = Component {
        tiers: tiers(&[("0", "10", "free"), ("10", "20", "1.5 per 3")]),
        invoicing_interval: Interval::new(IntervalUnit::Day, 1).ok(),
        prepaid_charge: Some(PrepaidCharge { units: None, behavior: ChargeBehavior::Prorate }),
        ..component(ids, metered)
    };
    vec![second, first]
}

pub(super) fn keeps_every_part_of_a_version(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let target = tenant.new_customer("acme");
    let (owner, _) = tenant.new_plan("gold");
    let (calls, bytes) = tenant.build(|ids| (count_metric(ids, "api_call", now), sum_metric(ids, "upload", now)));
    let (sso, chat) = tenant.build(|ids| (feature(ids, "sso"), feature(ids, "chat")));
    let yearly = RecurringCharge {
        amount: decimal("0.333333333333333"),
        timing: ChargeTiming::InArrears,
        behavior: ChargeBehavior::Full,
        invoicing_interval: Interval::new(IntervalUnit::Month, 3).ok(),
        reset_interval: Interval::new(IntervalUnit::Year, 1).ok(),
        ..tenant.build(|ids| recurring_charge(ids, "yearly"))
    };
    let adjustment = PriceAdjustment {
        name: "loyal".to_owned(),
        description: Some("ten percent off".to_owned()),
        kind: PriceAdjustmentKind::Percentage,
        amount: decimal("-10"),
    };
    let base = tenant.build(|ids| plan_version(ids, &owner, now));
    let made = PlanVersion {
        number: 7,
        localized_name: Some("Gold +".to_owned()),
        description: Some("more gold".to_owned()),
        currency_code: "TOKENS".to_owned(),
        components: tenant.build(|ids| full_components(ids, calls.id, bytes.id)),
        recurring_charges: vec![yearly, base.recurring_charges[0].clone()],
        features: vec![chat.id, sso.id],
        price_adjustment: Some(adjustment),
        anchors: Anchors::new(Some(31), Some(2)).expect("anchors"),
        target_customers: vec![TargetCustomer { key: target.key, id: target.id }],
        active_to: Some(now + Duration::days(1)),
        replace_with: Some(base.id),
        ..base
    };
    tenant.catalog(|tx, _| {
        tx.metrics().insert(&calls)?;
        tx.metrics().insert(&bytes)?;
        tx.features().insert(&sso)?;
        tx.features().insert(&chat)?;
        tx.plans().insert_version(&made)
    });
    assert_eq!(tenant.look(|tx, _| tx.plans().get_version(made.id)), made, "its parts in their order");
    let absent = tenant.build(Ids::next);
    let missing = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.plans().get_version(absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::PlanVersion)));
}

pub(super) fn lists_versions(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let ((gold, first), (_, other)) = (tenant.new_plan("gold"), tenant.new_plan("silver"));
    let second = PlanVersion {
        number: 2,
        created_at: first.created_at + Duration::days(1),
        ..tenant.build(|ids| plan_version(ids, &gold, first.created_at))
    };
    tenant.catalog(|tx, _| tx.plans().insert_version(&second));
    assert_eq!(tenant.look(|tx, _| tx.plans().list_versions(Some(gold.id))), [first.clone(), second.clone()]);
    assert_eq!(tenant.look(|tx, _| tx.plans().list_versions(None)), [first, other, second], "oldest first");
}

pub(super) fn updates_versions(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (gold, first) = tenant.new_plan("gold");
    let (_, other) = tenant.new_plan("silver");
    let changed = PlanVersion {
        localized_name: Some("Gold".to_owned()),
        description: Some("was gold".to_owned()),
        active_from: None,
        active_to: Some(first.created_at),
        replace_with: Some(other.id),
        ..first
    };
    tenant.catalog(|tx, _| tx.plans().update_version(&changed));
    assert_eq!(tenant.look(|tx, _| tx.plans().get_version(changed.id)), changed);
    let absent = tenant.build(|ids| plan_version(ids, &gold, changed.created_at));
    let missing = tenant.run(&Scope::Catalog(tenant.id), |tx, _| tx.plans().update_version(&absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::PlanVersion)));
}

pub(super) fn counts_active_subscriptions(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (_, gold) = tenant.new_plan("gold");
    let (_, silver) = tenant.new_plan("silver");
    let (start, day) = (tenant.now(), Duration::days(1));
    #[rustfmt::skip]
    let held = [
        // customer, version, starts,    lasts
        ("a",        &gold,   start,       30),
        ("b",        &gold,   start,       30),
        ("c",        &gold,   start + day, 30),
        ("d",        &silver, start + day, 0),
        ("e",        &silver, start - day, 1),
    ];
    for (name, version, start, days) in held {
        let holder = tenant.new_customer(name);
        let held = tenant.build(|ids| subscription(ids, holder.key, version, days_from(start, days)));
        tenant.customer(holder.key, |tx, _| tx.subscriptions().insert(&held));
    }
    let instant = Duration::microseconds(1);
    #[rustfmt::skip]
    let cases = [
        // at,                                 running, why
        (start,                                2,       "the start is inside; what ends then, or lasts for nothing, runs no more"),
        (start + day - instant,                2,       "until the next one starts"),
        (start + day,                          3,       "to the instant"),
        (start + Duration::days(30) - instant, 3,       "until they end"),
        (start + Duration::days(30),           1,       "the end is not inside"),
        (start + Duration::days(31),           0,       "none is left out as 0"),
    ];
    let count = |at| tenant.look(|tx, _| tx.plans().active_subscriptions(at));
    for (at, running, why) in cases {
        let expected: BTreeMap<_, _> = (running > 0).then_some((gold.id, running)).into_iter().collect();
        assert_eq!(count(at), expected, "{why}");
    }
    let holder = customer(tenant.id, "a", start).key;
    tenant.customer(holder, |tx, _| {
        let mut held = tx.subscriptions().list_current(holder, start)?.swap_remove(0);
        held.period = days_from(start, 10);
        tx.subscriptions().update(&held)
    });
    assert_eq!(count(start + Duration::days(10)), BTreeMap::from([(gold.id, 2)]), "one was cut short");
}

pub(super) fn lists_who_holds_a_version(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let (_, gold) = tenant.new_plan("gold");
    let (_, silver) = tenant.new_plan("silver");
    let (start, day) = (tenant.now(), Duration::days(1));
    let clock = tenant.new_clock(start - 400 * day);
    #[rustfmt::skip]
    let held = [
        // customer, version, starts,            lasts, by the clock
        ("late",     &gold,   start - day,       31,    false),
        ("same",     &gold,   start - day,       30,    false),
        ("same too", &gold,   start - day,       30,    false),
        ("to come",  &gold,   start + day,       30,    false),
        ("over",     &gold,   start - 9 * day,   3,     false),
        ("silver",   &silver, start - day,       30,    false),
        ("tested",   &gold,   start - 401 * day, 30,    true),
        ("not yet",  &gold,   start - day,       30,    true),
    ];
    let mut ids = BTreeMap::new();
    for (name, version, start, days, by_clock) in held {
        let holder = if by_clock { tenant.new_customer_of(&clock, name) } else { tenant.new_customer(name) };
        let held = tenant.build(|ids| subscription(ids, holder.key, version, days_from(start, days)));
        tenant.customer(holder.key, |tx, _| tx.subscriptions().insert(&held));
        ids.insert(name, held);
    }
    let list = |tenant: &Tenant<'_>, limit, after| {
        let page = PageRequest { limit, after };
        tenant.look(|tx, _| tx.plans().list_holders(gold.id, start, &page))
    };
    let names =
        |holders: &[VersionHolder]| holders.iter().map(|one| one.customer.as_str().to_owned()).collect::<Vec<_>>();
    let all = list(&tenant, 9, None);
    let mut same = ["same", "same too"];
    same.sort_by_key(|name| ids[name].id);
    assert_eq!(names(&all.items), ["tested", same[0], same[1], "late"], "by end, each by its customer's own time");
    assert_eq!(all.next, None);
    let first = &all.items[0];
    assert_eq!(
        (first.subscription, first.period, first.auto_renew),
        (ids["tested"].id, ids["tested"].period, ids["tested"].auto_renew)
    );
    let mut by_two = list(&tenant, 2, None);
    let rest = list(&tenant, 2, by_two.next.take());
    assert_eq!(
        (by_two.items, rest.items, rest.next),
        (all.items[..2].to_vec(), all.items[2..].to_vec(), None),
        "goes on between equal ends"
    );
    assert_eq!(list(&theirs, 9, None).items, [], "nobody else's");
    let page = PageRequest { limit: 1, after: Some("x".to_owned()) };
    let refused = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.plans().list_holders(gold.id, start, &page));
    assert!(refused.is_err(), "no cursor: {refused:?}");
}

pub(super) fn judges_subscriptions_by_their_customers_time(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (plan, gold) = tenant.new_plan("gold");
    let start = tenant.now() - Duration::days(400);
    let clock = tenant.new_clock(start);
    let holder = tenant.new_customer_of(&clock, "acme");
    let mut held = tenant.build(|ids| subscription(ids, holder.key, &gold, days_from(start, 30)));
    held.auto_renew = false;
    tenant.customer(holder.key, |tx, _| tx.subscriptions().insert(&held));
    let ask =
        || tenant.look(|tx, now| Ok((tx.plans().active_subscriptions(now)?, tx.plans().is_held(plan.id, None, now)?)));
    assert_eq!(ask(), (BTreeMap::from([(gold.id, 1)]), true), "over long ago, but not for this customer");
    let moved = TestClock { frozen_time: start + Duration::days(30), ..clock };
    tenant.catalog(|tx, _| tx.test_clocks().update(&moved));
    assert_eq!(ask(), (BTreeMap::new(), false), "now it is");
}

pub(super) fn updates_and_deletes_plans(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let (made, version) = tenant.new_plan("gold");
    let (other, _) = tenant.new_plan("silver");
    let acme = tenant.new_customer("acme");
    let changed = Plan { name: "platinum".to_owned(), tags: vec!["eu".to_owned()], ..made.clone() };
    tenant.catalog(|tx, _| tx.plans().update(&changed));
    assert_eq!(tenant.look(|tx, _| tx.plans().get(made.id)), changed);
    let target = TargetCustomer { key: acme.key, id: acme.id.clone() };
    for target_customers in [vec![target], Vec::new()] {
        let moved = PlanVersion { transition_to: Some(other.id), target_customers, ..version.clone() };
        tenant.catalog(|tx, _| tx.plans().update_version(&moved));
        assert_eq!(tenant.look(|tx, _| tx.plans().get_version(version.id)), moved);
    }

    let (gone, old) =
        (Plan { deleted_at: Some(now), ..changed }, PlanVersion { deleted_at: Some(now), ..version.clone() });
    tenant.catalog(|tx, _| {
        tx.plans().update_version(&old)?;
        tx.plans().update(&gone)
    });
    let missing = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.plans().get(made.id));
    assert_eq!(missing, Err(Error::NotFound(Noun::Plan)));
    assert_eq!(tenant.look(|tx, _| tx.plans().get_even_deleted(made.id)), gone);
    assert_eq!(tenant.look(|tx, _| tx.plans().get_version(version.id)), old, "what was billed by it needs it");
    assert_eq!(tenant.look(|tx, _| tx.plans().list_versions(Some(made.id))), []);
    assert_eq!(tenant.look(|tx, _| tx.plans().list()), [other]);
}

pub(super) fn knows_what_is_held(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let (made, version) = tenant.new_plan("gold");
    let acme = tenant.new_customer("acme");
    let held = |version| tenant.look(|tx, now| tx.plans().is_held(made.id, version, now));
    assert!(!held(None));
    let mut lapsing = tenant.build(|ids| subscription(ids, acme.key, &version, days_from(now - Duration::days(3), 2)));
    tenant.customer(acme.key, |tx, _| tx.subscriptions().insert(&lapsing));
    assert!(held(None) && held(Some(version.id)), "it has ended, but is to renew");
    assert!(!held(Some(tenant.build(Ids::next))), "another version");
    lapsing.auto_renew = false;
    tenant.customer(acme.key, |tx, _| tx.subscriptions().update(&lapsing));
    assert!(!held(None), "it has ended");
    let coming = tenant.build(|ids| subscription(ids, acme.key, &version, days_from(now + Duration::DAY, 2)));
    tenant.customer(acme.key, |tx, _| tx.subscriptions().insert(&coming));
    assert!(held(None), "one is to come");
}
