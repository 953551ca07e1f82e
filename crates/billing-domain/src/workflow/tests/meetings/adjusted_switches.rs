//! Switches between plans of different adjustments, prices and tax: what comes back is what was paid for it.

use time::OffsetDateTime;
use time::macros::datetime;

use super::{Life, adjusted, every};
use crate::id::MetricId;
use crate::period::IntervalUnit::Week;
use crate::plan::ChargeBehavior::{self, Full, Prorate};
use crate::plan::ChargeTiming::InAdvance;
use crate::plan::PriceAdjustmentKind::Percentage;
use crate::subscription::InvoicingBehavior::InvoiceNow;
use crate::subscription::SwitchUsageBehavior::KeepSeparate;
use crate::testing::world::{component, fee, prepaid_component, tiers, version};
use crate::workflow::{NewPlanVersion, UpdateSubscription, update_subscription};

/// A month of 30 days.
const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const FOURTH: OffsetDateTime = datetime!(2024-04-04 00:00 UTC);
const SIXTEENTH: OffsetDateTime = datetime!(2024-04-16 00:00 UTC);

fn prepaid(metric: MetricId, behavior: ChargeBehavior) -> NewPlanVersion {
    version(Vec::new(), vec![prepaid_component(metric, tiers(&[("0", "", "10")]), "10", behavior)])
}

/// Ten units at 10, half price before the switch or after it.
fn ten_units(behavior: ChargeBehavior, half_price_first: bool) -> (Life, MetricId, [NewPlanVersion; 2]) {
    let metric = std::cell::Cell::new(None);
    let life = Life::monthly(START, |world| {
        let seats = world.metric("seat", None).id;
        metric.set(Some(seats));
        let whole = prepaid(seats, behavior);
        if half_price_first { adjusted(whole, Percentage, "-50") } else { whole }
    });
    let metric = metric.get().expect("a metric");
    let (whole, half) = (prepaid(metric, behavior), adjusted(prepaid(metric, behavior), Percentage, "-50"));
    (life, metric, [whole, half])
}

#[test]
fn prepaid_units_come_back_at_the_price_they_were_paid_at() {
    #[rustfmt::skip]
    let cases = [
        // behavior, invoices,                      paid, why
        (Prorate,    vec!["50", "45", "-90"],       "5",  "3 days at half price: 45 back and 90 for the rest, which comes back whole"),
        (Full,       vec!["50", "50", "-100"],      "0",  "whole back at half price, whole at the new price, whole back"),
    ];
    for (behavior, invoices, paid, why) in cases {
        let (mut life, seats, [whole, _]) = ten_units(behavior, true);
        life.at(FOURTH);
        let plan = life.plan(whole);
        life.switch(plan);
        life.units(seats, "0");
        assert_eq!(
            (life.invoices(), life.paid().as_str()),
            (invoices.into_iter().map(Into::into).collect(), paid),
            "{why}"
        );
    }
}

#[test]
fn time_after_a_switch_costs_what_the_new_plan_says() {
    #[rustfmt::skip]
    let cases = [
        // behavior, invoices,                    paid,  why
        (Prorate,    vec!["100", "-45", "-25"],   "30",  "3 days at 10/3, 12 at half of it, and the rest comes back"),
        (Full,       vec!["100", "-50"],          "50",  "whole units stay when the subscription is cancelled"),
    ];
    for (behavior, invoices, paid, why) in cases {
        let (mut life, _, [_, half]) = ten_units(behavior, false);
        life.at(FOURTH);
        let plan = life.plan(half);
        life.switch(plan);
        life.at(SIXTEENTH);
        life.cancel(None);
        let found: Vec<_> = life.invoices().into_iter().filter(|sum| sum != "0").collect();
        assert_eq!((found, life.paid().as_str()), (invoices.into_iter().map(Into::into).collect(), paid), "{why}");
    }
}

#[test]
fn usage_that_goes_along_is_priced_anew_and_what_was_billed_of_it_comes_back_as_it_was_billed() {
    let metric = std::cell::Cell::new(None);
    let usage = |metric, price| {
        let mut component = component(metric, tiers(&[("0", "", price)]));
        component.invoicing_interval = every(1, Week);
        version(Vec::new(), vec![component])
    };
    let mut life = Life::monthly(START, |world| {
        let calls = world.metric("call", None).id;
        metric.set(Some(calls));
        adjusted(usage(calls, "1"), Percentage, "-50")
    });
    let calls = metric.get().expect("a metric");
    life.tax("20");
    life.world.track_many("acme", "call", START, 10);
    life.at(datetime!(2024-04-08 00:30 UTC));
    assert_eq!(life.invoices(), ["6"], "half of 10, and a fifth of that in tax");
    life.tax("0");
    life.at(datetime!(2024-04-10 00:00 UTC));
    let plan = life.plan(usage(calls, "0.1"));
    life.switch(plan);
    life.at(datetime!(2024-05-01 00:30 UTC));
    let found: Vec<_> = life.invoices().into_iter().filter(|sum| sum != "0").collect();
    assert_eq!(found, ["6", "-5"], "6 back, tax of then included, and 10 calls at 0.1 without tax");
    assert_eq!(life.paid(), "1");
}

#[test]
fn a_full_fee_is_charged_once_a_period() {
    let full = |amount: &str| {
        let mut fee = fee(amount, InAdvance);
        fee.behavior = Full;
        version(vec![fee], Vec::new())
    };
    let half = |version| adjusted(version, Percentage, "-50");
    #[rustfmt::skip]
    let cases: [(Vec<NewPlanVersion>, &str, &str); 5] = [
        // plans one after the other,                      paid,  why
        (vec![full("30"), full("60")],                     "60",  "the new fee less the old one"),
        (vec![full("60"), full("30")],                     "60",  "never below nothing"),
        (vec![full("30"), full("60"), full("100")],        "100", "once, however many plans"),
        (vec![full("60"), full("30"), full("100")],        "100", "what came first still counts"),
        (vec![half(full("30")), full("60")],               "45",  "15 for the first 30, and 30 without the discount"),
    ];
    for (plans, paid, why) in cases {
        let mut plans = plans.into_iter();
        let mut life = Life::monthly(START, |_| plans.next().expect("a plan"));
        for (day, version) in (5..).zip(plans) {
            life.at(START + time::Duration::days(day));
            let plan = life.plan(version);
            life.switch(plan);
        }
        assert_eq!(life.paid(), paid, "{why}");
        life.at(datetime!(2024-04-30 00:00 UTC));
        assert_eq!(life.paid(), paid, "{why}, also later");
    }

    // At the boundary itself, where the invoice of the new period waits: the old fee has not begun and costs nothing.
    let mut life = Life::monthly(START, |_| full("30"));
    life.at(datetime!(2024-05-01 00:00 UTC));
    life.id = life.world.subscriptions("acme").pop().expect("renewed").id;
    let plan = life.plan(full("30"));
    life.switch(plan);
    life.at(datetime!(2024-05-02 00:00 UTC));
    assert_eq!(life.paid(), "60", "April and May");
}

#[test]
fn prepaid_units_come_back_with_the_switch_also_where_usage_stays_separate() {
    #[rustfmt::skip]
    let cases = [
        // behavior, with the switch, why
        (Prorate,    "0",             "90 back, 90 for the rest of the month"),
        (Full,       "0",             "whole back, whole again"),
    ];
    for (behavior, at_switch, why) in cases {
        let (mut life, _, [whole, _]) = ten_units(behavior, false);
        life.at(FOURTH);
        let plan = life.plan(whole);
        life.switch_by(plan, InvoiceNow, KeepSeparate);
        assert_eq!(life.invoices(), ["100", at_switch], "{why}");
        life.at(datetime!(2024-04-30 00:00 UTC));
        assert_eq!(life.paid(), "100", "{why}");
    }
}

#[test]
fn what_is_taken_back_of_two_tax_rates_has_both() {
    let (life, seats, _) = ten_units(Full, false);
    life.tax("10");
    life.units(seats, "20");
    life.tax("20");
    life.units(seats, "25");
    life.tax("0");
    life.units(seats, "0");
    assert_eq!(life.invoices(), ["100", "110", "60", "-270"], "without tax, with 10 %, with 20 %: each as it was paid");
}

#[test]
fn late_usage_comes_along_with_the_invoice_of_changed_units() {
    let metric = std::cell::Cell::new(None);
    let life = Life::monthly(START, |world| {
        let [seats, calls] = ["seat", "call"].map(|name| world.metric(name, None).id);
        metric.set(Some(seats));
        let call = component(calls, tiers(&[("0", "", "1")]));
        version(Vec::new(), vec![prepaid_component(seats, tiers(&[("0", "", "1")]), "10", Full), call])
    });
    life.at(datetime!(2024-05-02 00:00 UTC));
    life.world.track_many("acme", "call", datetime!(2024-04-20 00:00 UTC), 3);
    let renewed = life.world.subscriptions("acme").pop().expect("renewed").id;
    let life = Life { id: renewed, ..life };
    life.units(metric.get().expect("a metric"), "12");
    assert_eq!(life.invoices(), ["10", "10", "5"], "two units more, and three calls of April that arrived in May");
}

#[test]
fn a_full_fee_does_not_follow_an_end_that_moves() {
    let life = Life::monthly(START, |_| {
        let mut fee = fee("30", InAdvance);
        fee.behavior = Full;
        version(vec![fee], Vec::new())
    });
    let command = UpdateSubscription {
        customer: life.world.key("acme"),
        subscription: life.id,
        end: Some(datetime!(2024-07-01 00:00 UTC)),
        turn_off_auto_renew: true,
        metadata: None,
    };
    life.world.on("acme", |tx, now| update_subscription(tx, &command, now)).expect("updated");
    life.at(datetime!(2024-07-02 00:00 UTC));
    assert_eq!(life.paid(), "30", "it is one fee, however long the period");
}
