//! Voided invoices: what nobody paid does not come back.

use time::OffsetDateTime;
use time::macros::datetime;

use super::{Life, adjusted, every};
use crate::decimal::plain;
use crate::error::Refusal;
use crate::id::MetricId;
use crate::invoice::PaymentStatus;
use crate::metric::{Aggregation, MetricFilters};
use crate::period::IntervalUnit::Week;
use crate::period::PlanDuration;
use crate::plan::ChargeBehavior::{Full, Prorate};
use crate::plan::ChargeTiming::InAdvance;
use crate::plan::PriceAdjustmentKind::{Fixed, Percentage, PriceOverride};
use crate::subscription::FlatFeeBehavior::Refund;
use crate::testing::world::{World, component, fee, prepaid_component, tiers, version};
use crate::workflow::{CreateMetric, create_metric};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const SIXTEENTH: OffsetDateTime = datetime!(2024-04-16 00:00 UTC);

fn fee_of_30() -> Life {
    Life::monthly(START, |_| version(vec![fee("30", InAdvance)], Vec::new()))
}

/// The latest value of `call`, billed each week at 1.
fn level() -> (Life, MetricId) {
    let world = World::at(START);
    let command = CreateMetric {
        name: None,
        event_name: "call".to_owned(),
        measure: Aggregation::Latest { property_name: "n".to_owned() }.into(),
        filters: MetricFilters::default(),
        is_cost_metric: false,
    };
    let metric = world.catalog(|tx, now| create_metric(tx, &command, now)).expect("a metric").id;
    let mut component = component(metric, tiers(&[("0", "", "1")]));
    component.invoicing_interval = every(1, Week);
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![component]));
    (Life::begin(world, plan, START), metric)
}

fn set_level(life: &Life, level: i32, at: OffsetDateTime) {
    life.world.track("acme", "call", at, &serde_json::json!({ "n": level }));
}

#[test]
fn a_fee_that_was_voided_does_not_come_back() {
    #[rustfmt::skip]
    let cases = [
        // adjustment,                      tax, flat fee,     why
        (None,                              "",   Some(Refund), "the fee was never paid"),
        (None,                              "20", Some(Refund), "nor its tax"),
        (None,                              "20", None,         "nor a part of it"),
        (Some((Percentage, "-50")),         "20", None,         "nor what was left of it after a discount"),
        (Some((Percentage, "10")),          "20", None,         "nor a surcharge"),
        (Some((Fixed, "10")),               "20", None,         "nor a surcharge that is prorated"),
        (Some((Fixed, "-10")),              "20", None,         "nor beside a discount that is"),
        (Some((PriceOverride, "20")),       "20", None,         "nor what an override asked for"),
        (Some((PriceOverride, "20")),       "20", Some(Refund), "whatever it comes to"),
    ];
    for (adjustment, tax, flat_fee, why) in cases {
        let world = World::at(START);
        world.customer("acme");
        let mut priced = version(vec![fee("30", InAdvance)], Vec::new());
        if let Some((kind, amount)) = adjustment {
            priced = adjusted(priced, kind, amount);
        }
        let plan = world.plan(Some(PlanDuration::Monthly), priced);
        if !tax.is_empty() {
            let tax_rate = Some(Some(crate::testing::world::decimal(tax)));
            world.set(&crate::workflow::OrganizationPatch { tax_rate, ..Default::default() });
        }
        let id = world.subscribe(&crate::testing::world::subscription("acme", plan, START)).expect("subscribed").id;
        let life = Life { world, id };
        life.void_last();
        life.at(SIXTEENTH);
        life.cancel(flat_fee);
        assert_eq!((life.paid().as_str(), life.credit().as_str()), ("0", "0"), "{why}");
    }
}

#[test]
fn what_else_was_voided_does_not_come_back_either() {
    let seats = std::cell::Cell::new(None);
    for behavior in [Full, Prorate] {
        let life = Life::monthly(START, |world| {
            let metric = world.metric("seat", None).id;
            seats.set(Some(metric));
            version(Vec::new(), vec![prepaid_component(metric, tiers(&[("0", "", "10")]), "10", behavior)])
        });
        life.void_last();
        let metric = seats.get().expect("a metric");
        life.units(metric, "0");
        assert_eq!((life.paid().as_str(), life.credit().as_str()), ("0", "0"), "prepaid units, {behavior:?}");
        life.units(metric, "13");
        assert_eq!(life.paid(), "30", "10 of the 13 were forgiven");
        life.units(metric, "0");
        assert_eq!(life.paid(), "0", "what was paid comes back, no more");
    }

    let (life, _) = level();
    set_level(&life, 100, START);
    life.at(datetime!(2024-04-08 00:30 UTC));
    life.void_last();
    set_level(&life, 1, datetime!(2024-04-09 00:00 UTC));
    life.at(datetime!(2024-05-01 00:30 UTC));
    assert_eq!((life.paid().as_str(), life.credit().as_str()), ("0", "0"), "usage that fell");

    let mut life = fee_of_30();
    life.void_last();
    life.at(SIXTEENTH);
    let plan = life.plan(version(vec![fee("60", InAdvance)], Vec::new()));
    life.switch(plan);
    assert_eq!(life.paid(), "30", "half of the new fee, and nothing of the old one back");
}

#[test]
fn what_was_taken_back_since_cannot_be_voided() {
    let life = fee_of_30();
    let first = life.world.invoices("acme").remove(0);
    life.at(SIXTEENTH);
    life.cancel(None);
    let back = life.world.invoices("acme").remove(1);
    assert_eq!(life.void(first.id), Err(Refusal::LinesTakenBack(back.number).into()), "15 of it is a credit already");
    assert_eq!((life.paid().as_str(), life.credit().as_str()), ("15", "15"));

    // Netted on an invoice that is to be paid: once that one is void, what it took back is owed again.
    let mut life = fee_of_30();
    let first = life.world.invoices("acme").remove(0);
    life.at(SIXTEENTH);
    let plan = life.plan(version(vec![fee("60", InAdvance)], Vec::new()));
    life.switch(plan);
    let switched = life.world.invoices("acme").remove(1);
    assert_eq!(life.void(first.id), Err(Refusal::LinesTakenBack(switched.number).into()));
    life.void(switched.id).expect("voided");
    assert_eq!(life.paid(), "30", "the first invoice alone");
    let voided = life.void(first.id).expect("now it can be");
    assert_eq!(voided.payment_status, PaymentStatus::Voided);
    life.at(datetime!(2024-04-30 00:00 UTC));
    assert_eq!((life.paid().as_str(), life.credit().as_str()), ("0", "0"));
}

#[test]
fn what_a_voided_invoice_took_back_comes_with_the_next_one() {
    let mut life = fee_of_30();
    life.tax("20");
    life.at(SIXTEENTH);
    let plan = life.plan(version(vec![fee("60", InAdvance)], Vec::new()));
    life.switch(plan);
    let switched = life.world.invoices("acme").remove(1);
    let named: Vec<_> = switched.owed_again_when_voided().map(|(_, line)| plain(&line.amount)).collect();
    assert_eq!(named, ["-15"], "without tax, as it was paid");
    let named: Vec<_> = switched.forgiven_when_voided().map(|(_, line)| plain(&line.amount)).collect();
    assert_eq!(named, ["36"]);
    life.void(switched.id).expect("voided");
    life.at(datetime!(2024-05-01 00:30 UTC));
    assert_eq!(life.invoices(), ["30", "(21)", "57"], "72 for May, and the 15 of April that are owed again");
}

#[test]
fn a_later_charge_of_the_same_fee_is_paid_and_comes_back() {
    let (life, _) = level();
    set_level(&life, 100, START);
    life.at(datetime!(2024-04-08 00:30 UTC));
    life.void_last();
    set_level(&life, 130, datetime!(2024-04-09 00:00 UTC));
    life.at(datetime!(2024-04-15 00:30 UTC));
    assert_eq!(life.invoices(), ["(100)", "30"], "only what was not charged before");
    set_level(&life, 20, datetime!(2024-04-16 00:00 UTC));
    life.at(datetime!(2024-04-22 00:30 UTC));
    assert_eq!(life.invoices(), ["(100)", "30", "-30"], "what was paid, and not what was forgiven");
}
