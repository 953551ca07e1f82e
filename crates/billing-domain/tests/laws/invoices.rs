//! Whole lives of customers: random plans, random usage, billed by the workflows of the service.

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, Zero};
use billing_domain::invoice::{AdjustmentBasis, Invoice, PaymentStatus};
use billing_domain::money::round_half_away_from_zero;
use billing_domain::period::{Anchors, Interval, IntervalUnit, PlanDuration};
use billing_domain::plan::{ChargeBehavior, ChargeTiming, PrepaidCharge, PriceAdjustment, PriceAdjustmentKind};
use billing_domain::store::{InvoiceFilter, PageRequest};
use billing_domain::testing::world::{World, component, subscription, version};
use billing_domain::tier::TierSchedule;
use billing_domain::workflow::{CreateCredit, NewRecurringCharge, OrganizationPatch, create_credit};
use proptest::prelude::*;
use serde_json::json;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::laws_of_lives;
use crate::recompute::{check, in_minor_units};
use crate::values::{any_amount, any_quantity, any_schedule};

const START: OffsetDateTime = datetime!(2026-01-31 9:30 UTC);
const DAYS: i64 = 100;

/// A plan, its subscriber, and what they do.
#[derive(Clone, Debug)]
struct Life {
    duration: PlanDuration,
    currency: &'static str,
    anchors: Anchors,
    fees: Vec<NewRecurringCharge>,
    components: Vec<Metered>,
    adjustment: Option<(PriceAdjustmentKind, BigDecimal)>,
    tax_rate: Option<BigDecimal>,
    credit: Option<BigDecimal>,
    /// Which component's event, when, how much.
    events: Vec<(usize, Duration, i64)>,
}

#[derive(Clone, Debug)]
struct Metered {
    tiers: TierSchedule,
    invoicing_interval: Option<Interval>,
    reset_interval: Option<Interval>,
    prepaid: Option<(BigDecimal, ChargeBehavior)>,
}

fn any_interval() -> impl Strategy<Value = Option<Interval>> {
    let interval = (prop::sample::select(IntervalUnit::ALL.to_vec()), 1..4_u32).prop_map(|(unit, count)| {
        // Not every day: a year of that is many records and no other law.
        let count = if unit == IntervalUnit::Day { count * 5 } else { count };
        Interval::new(unit, count).expect("at least 1")
    });
    prop::option::of(interval)
}

fn any_behavior() -> impl Strategy<Value = ChargeBehavior> {
    prop::sample::select(ChargeBehavior::ALL.to_vec())
}

fn any_fees() -> impl Strategy<Value = Vec<NewRecurringCharge>> {
    let timing = prop::sample::select(ChargeTiming::ALL.to_vec());
    let fee = (any_amount(), timing, any_behavior(), any_interval(), any_interval());
    prop::collection::vec(fee, 0..3).prop_map(|fees| {
        let named = |(index, (amount, timing, behavior, invoicing_interval, reset_interval))| NewRecurringCharge {
            name: format!("fee {index}"),
            amount,
            timing,
            behavior,
            invoicing_interval,
            reset_interval,
        };
        fees.into_iter().enumerate().map(named).collect()
    })
}

fn any_component() -> impl Strategy<Value = Metered> {
    let prepaid = prop::option::of((any_quantity(), any_behavior()));
    (any_schedule(), any_interval(), any_interval(), prepaid).prop_map(
        |(tiers, invoicing_interval, reset_interval, prepaid)| Metered {
            tiers,
            invoicing_interval,
            reset_interval,
            prepaid,
        },
    )
}

fn any_adjustment() -> impl Strategy<Value = Option<(PriceAdjustmentKind, BigDecimal)>> {
    let kind = prop::sample::select(PriceAdjustmentKind::ALL.to_vec());
    prop::option::of((kind, any_amount(), any::<bool>()).prop_map(|(kind, amount, is_discount)| {
        let is_override = kind == PriceAdjustmentKind::PriceOverride;
        (kind, if is_discount && !is_override { -amount } else { amount })
    }))
}

fn any_life() -> impl Strategy<Value = Life> {
    let plan = (
        prop::sample::select(PlanDuration::ALL.to_vec()),
        prop::sample::select(vec!["USD", "JPY", "KWD"]),
        (prop::option::of(1..=31_u8), prop::option::of(1..=12_u8)),
        any_fees(),
        prop::collection::vec(any_component(), 0..3),
        any_adjustment(),
    );
    let tax_rate = prop::option::of((0..4_000_i64).prop_map(|rate| BigDecimal::new(rate.into(), 2)));
    let credit = prop::option::of((1..500_i64).prop_map(BigDecimal::from));
    let minutes = prop_oneof![3 => 0..DAYS * 24 * 60, 1 => (0..DAYS).prop_map(|day| day * 24 * 60)];
    let event = (0..2_usize, minutes.prop_map(Duration::minutes), -20..200_i64);
    (plan, tax_rate, credit, prop::collection::vec(event, 0..25)).prop_map(
        |((duration, currency, (day, month), fees, components, adjustment), tax_rate, credit, events)| Life {
            duration,
            currency,
            anchors: Anchors { day, month },
            fees,
            components,
            adjustment,
            tax_rate,
            credit,
            events,
        },
    )
}

impl Life {
    /// Lives it, with billing runs at these instants.
    fn invoices(&self, runs: &[OffsetDateTime]) -> Vec<Invoice> {
        let world = World::at(START);
        world.set(&OrganizationPatch { tax_rate: Some(self.tax_rate.clone()), ..OrganizationPatch::default() });
        let components = self.components.iter().enumerate().map(|(index, metered)| {
            let mut own = component(world.metric(&format!("event-{index}"), Some("n")).id, metered.tiers.clone());
            own.invoicing_interval = metered.invoicing_interval;
            own.reset_interval = metered.reset_interval;
            own.prepaid_charge =
                metered.prepaid.clone().map(|(units, behavior)| PrepaidCharge { units: Some(units), behavior });
            own
        });
        let mut plan = version(self.fees.clone(), components.collect());
        plan.currency_code = self.currency.to_owned();
        plan.anchors = self.anchors;
        plan.price_adjustment = self.adjustment.clone().map(|(kind, amount)| PriceAdjustment {
            name: "deal".to_owned(),
            description: None,
            kind,
            amount,
        });
        let plan = world.plan(Some(self.duration), plan);
        world.customer("acme");
        if let Some(amount) = &self.credit {
            let command = CreateCredit {
                customer: "acme".parse().expect("an id"),
                amount: amount.clone(),
                currency_code: self.currency.to_owned(),
                description: None,
                effective_at: None,
                expires_at: Some(START + Duration::days(60)),
                amount_paid: BigDecimal::zero(),
                amount_paid_currency_code: None,
            };
            world.on("acme", |tx, now| create_credit(tx, &command, now)).expect("a credit");
        }
        for (index, after, amount) in &self.events {
            world.track("acme", &format!("event-{index}"), START + *after, &json!({ "n": amount }));
        }
        world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
        for run in runs {
            world.advance("acme", *run);
        }
        all_invoices(&world)
    }
}

/// Oldest first.
fn all_invoices(world: &World) -> Vec<Invoice> {
    let filter = InvoiceFilter { customer: Some(world.key("acme")), statuses: None };
    let list = |page: PageRequest| world.on("acme", |tx, _| tx.invoices().list(&filter, &page)).expect("invoices");
    let (mut page, mut invoices) = (PageRequest::first(), Vec::new());
    loop {
        let part = list(page.clone());
        invoices.extend(part.items);
        match part.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    invoices.reverse();
    invoices
}

/// Everything of invoices but the order of their lines, and what depends on that: which of them carries a cent of tax.
fn facts(invoices: &[Invoice]) -> Vec<String> {
    let of_invoice = |invoice: &Invoice| {
        let mut lines: Vec<_> = invoice
            .lines
            .iter()
            .map(|line| (line.record, &line.name, format!("{} {:?} {:?}", line.base, line.quantity, line.trace)))
            .collect();
        lines.sort();
        let head = (&invoice.number, invoice.issued_at, invoice.due_at, &invoice.amount, invoice.payment_status);
        format!("{head:?} {lines:?}")
    };
    invoices.iter().map(of_invoice).collect()
}

fn end() -> OffsetDateTime {
    START + Duration::days(DAYS)
}

proptest! {
    #![proptest_config(laws_of_lives())]

    #[test]
    fn every_invoice_adds_up_and_explains_itself(life in any_life()) {
        let invoices = life.invoices(&[end()]);
        let mut sequence = 0_u64;
        for invoice in &invoices {
            let decimals = invoice.currency.decimals;
            let sum: BigInt = invoice.lines.iter().map(|line| in_minor_units(&line.amount, decimals)).sum();
            prop_assert_eq!(in_minor_units(&invoice.amount, decimals), sum);
            prop_assert!(invoice.amount >= BigDecimal::zero(), "less than nothing becomes a credit");
            prop_assert_eq!(invoice.payment_status == PaymentStatus::Paid, invoice.amount.is_zero());
            sequence += 1;
            prop_assert!(invoice.number.ends_with(&format!("-{sequence:06}")), "{}: no gap", invoice.number);
            invoice.lines.iter().for_each(|line| check(line, decimals));
        }
        prop_assert!(invoices.is_sorted_by_key(|invoice| invoice.issued_at));
    }

    #[test]
    fn adjustments_of_an_invoice_bring_the_period_to_its_target(life in any_life()) {
        for invoice in life.invoices(&[end()]) {
            let decimals = invoice.currency.decimals;
            let mut subscriptions: Vec<_> = invoice.lines.iter().filter_map(|line| line.subscription).collect();
            subscriptions.dedup();
            for id in subscriptions {
                let adjustments = invoice
                    .lines
                    .iter()
                    .filter(|line| line.subscription == Some(id))
                    .flat_map(|line| &line.adjustments);
                let (mut sum, mut owed) = (BigDecimal::zero(), None);
                for adjustment in adjustments {
                    let AdjustmentBasis::PlanAdjustment { charges_so_far, target, given_before, .. } = &adjustment.basis
                    else {
                        continue;
                    };
                    sum += &adjustment.amount;
                    owed = Some(round_half_away_from_zero(target, decimals) - charges_so_far - given_before);
                }
                if let Some(owed) = owed {
                    prop_assert_eq!(sum, owed);
                }
            }
        }
    }

    #[test]
    fn billing_in_steps_is_billing_at_once(
        life in any_life(),
        mut minutes in prop::collection::vec(0..DAYS * 24 * 60, 0..12),
    ) {
        minutes.sort_unstable();
        let mut runs: Vec<_> = minutes.into_iter().map(|minutes| START + Duration::minutes(minutes)).collect();
        runs.push(end());
        prop_assert_eq!(facts(&life.invoices(&runs)), facts(&life.invoices(&[end()])));
    }
}
