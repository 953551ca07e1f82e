//! Back-dated subscriptions and drafts: what an invoice is dated, and what it is said to be before.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use super::{Life, every};
use crate::decimal::plain;
use crate::period::IntervalUnit::Week;
use crate::period::PlanDuration;
use crate::plan::ChargeBehavior::Full;
use crate::plan::ChargeTiming::{InAdvance, InArrears};
use crate::testing::world::{World, component, decimal, fee, prepaid_component, tiers, version};
use crate::workflow::{DraftInvoice, OrganizationPatch, draft_invoice};

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);

fn issued(life: &Life) -> Vec<String> {
    let invoices = life.world.invoices("acme");
    invoices.iter().map(|invoice| format!("{} {}", invoice.issued_at.date(), plain(&invoice.amount))).collect()
}

#[test]
fn what_was_past_at_the_call_is_dated_at_the_call() {
    let now = datetime!(2024-03-10 12:00 UTC);
    let world = World::at(now);
    world.set(&OrganizationPatch { payment_grace_period_days: Some(Some(14)), ..OrganizationPatch::default() });
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InArrears)], Vec::new()));
    let life = Life::begin(world, plan, START);
    assert_eq!(issued(&life), ["2024-03-10 30", "2024-03-10 30"], "one for each past period, none past due at birth");
    for invoice in life.world.invoices("acme") {
        assert_eq!((invoice.issued_at, invoice.due_at), (now, Some(now + Duration::days(14))));
        assert!(invoice.number.starts_with("240310-"), "{}", invoice.number);
    }
    life.at(datetime!(2024-06-20 00:00 UTC));
    let later = ["2024-03-10 30", "2024-03-10 30", "2024-04-01 30", "2024-05-01 30", "2024-06-01 30"];
    assert_eq!(issued(&life), later, "whenever the run comes by, the others bear the instant at which they fell due");
}

#[test]
fn a_switch_and_a_renewal_are_part_of_the_chain() {
    let now = datetime!(2024-03-31 23:45 UTC);
    let world = World::at(now);
    let priced = || version(vec![fee("30", InArrears)], Vec::new());
    let plan = world.plan(Some(PlanDuration::Monthly), priced());
    let mut life = Life::begin(world, plan, START);
    life.id = life.world.subscriptions("acme").pop().expect("renewed").id;
    let other = life.plan(priced());
    life.switch(other);
    life.at(datetime!(2024-04-01 00:30 UTC));
    assert!(issued(&life).iter().all(|date| date >= &"2024-03-31".to_owned()), "{:?}", issued(&life));
}

/// The lines of the customer's draft, by what they come to.
fn drafted(life: &Life) -> Vec<String> {
    let command = DraftInvoice { customer: "acme".parse().expect("an id"), include_next_period: true };
    let draft = life.world.catalog(|tx, now| draft_invoice(tx, &command, now)).expect("a draft");
    let lines = draft.invoices.iter().flat_map(|invoice| &invoice.lines);
    let mut amounts: Vec<_> =
        lines.filter(|line| line.amount != decimal("0")).map(|line| plain(&line.amount)).collect();
    amounts.sort();
    amounts
}

#[test]
fn a_draft_just_before_an_instant_is_the_invoice_of_it() {
    let life = Life::monthly(START, |world| {
        let [seats, calls] = ["seat", "call"].map(|name| world.metric(name, None).id);
        let seat = prepaid_component(seats, tiers(&[("0", "", "1")]), "10", Full);
        let mut call = component(calls, tiers(&[("0", "", "1")]));
        call.invoicing_interval = every(1, Week);
        let mut weekly = fee("2", InAdvance);
        (weekly.name, weekly.reset_interval, weekly.behavior) = ("weekly".to_owned(), every(1, Week), Full);
        let mut after = fee("8", InArrears);
        after.name = "after".to_owned();
        version(vec![fee("5", InAdvance), after, weekly], vec![seat, call])
    });
    life.world.track_many("acme", "call", datetime!(2024-01-03 00:00 UTC), 3);
    life.world.track_many("acme", "call", datetime!(2024-01-30 00:00 UTC), 4);
    #[rustfmt::skip]
    let cases = [
        // instant,                        invoice,                         why
        (datetime!(2024-01-08 0:00 UTC),   vec!["2", "3"],                  "the calls of the week, and the week to come"),
        (datetime!(2024-01-15 0:00 UTC),   vec!["2"],                       "no call, and the week to come"),
        (datetime!(2024-02-01 0:00 UTC),   vec!["10", "2", "4", "5", "8"],  "the rest of January; of February the fees and the units"),
    ];
    for (instant, expected, why) in cases {
        life.at(instant - Duration::MICROSECOND);
        assert_eq!(drafted(&life), expected, "{why}");
        life.at(instant + Duration::minutes(30));
        let invoice = life.world.invoices("acme").pop().expect("an invoice");
        let lines = invoice.lines.iter().filter(|line| line.amount != decimal("0"));
        let mut amounts: Vec<_> = lines.map(|line| plain(&line.amount)).collect();
        amounts.sort();
        assert_eq!(amounts, expected, "{why}: issued");
    }
}
