//! Random customers: their plans, what they use, and what they change, lived by the workflows of the service.

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::{BigDecimal, Zero};
use billing_domain::Refusal;
use billing_domain::charge::{BillingRecord, Charge};
use billing_domain::credit::CreditLedger;
use billing_domain::error::Error;
use billing_domain::id::{BillingRecordId, CustomerKey, MetricId, PlanId};
use billing_domain::invoice::Invoice;
use billing_domain::period::{Anchors, Interval, IntervalUnit, PlanDuration};
use billing_domain::plan::{
    ChargeBehavior, ChargeTiming, PlanVersion, PrepaidCharge, PriceAdjustment, PriceAdjustmentKind,
};
use billing_domain::store::{InvoiceFilter, PageRequest, Transaction};
use billing_domain::subscription::{
    Cancellation, FlatFeeBehavior, InvoicingBehavior, Subscription, SubscriptionStatus, SwitchUsageBehavior,
    UsageBehavior,
};
use billing_domain::testing::world::{World, component, subscription, version};
use billing_domain::tier::TierSchedule;
use billing_domain::workflow::{
    CancelSubscription, ChangePrepaidUnits, CreateCredit, NewPlanVersion, NewRecurringCharge, OrganizationPatch,
    SwitchPlan, VersionChoice, bill_customer, cancel_subscription, change_prepaid_units, create_credit, switch_plan,
    void_invoice,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::values::{any_amount, any_quantity, any_schedule};

/// The earliest start of a life.
pub const START: OffsetDateTime = datetime!(2026-01-28 9:30 UTC);
/// How long it is looked at: months are renewed beyond a year.
pub const DAYS: i64 = 430;

/// Two plans, a subscriber of the first, and what they do.
#[derive(Clone, Debug)]
pub struct Life {
    start: OffsetDateTime,
    duration: PlanDuration,
    currency: &'static str,
    anchors: Anchors,
    plans: [Priced; 2],
    tax_rate: Option<BigDecimal>,
    credit: Option<BigDecimal>,
    /// Which component's event, when, how much.
    events: Vec<(usize, Duration, i64)>,
    /// What becomes of the subscription, and how long after the start: in order.
    changes: Vec<(Duration, Change)>,
}

/// What a plan charges.
#[derive(Clone, Debug)]
pub struct Priced {
    pub fees: Vec<NewRecurringCharge>,
    pub components: Vec<Metered>,
    pub adjustment: Option<(PriceAdjustmentKind, BigDecimal)>,
}

impl Priced {
    /// What it is as a version of a plan.
    pub fn version(&self, metrics: [MetricId; 2], currency: &str, anchors: Anchors) -> NewPlanVersion {
        let components = self.components.iter().zip(metrics).map(|(metered, metric)| {
            let mut component = component(metric, metered.tiers.clone());
            component.invoicing_interval = metered.invoicing_interval;
            component.reset_interval = metered.reset_interval;
            component.prepaid_charge =
                metered.prepaid.clone().map(|(units, behavior)| PrepaidCharge { units: Some(units), behavior });
            component
        });
        let mut plan = version(self.fees.clone(), components.collect());
        plan.currency_code = currency.to_owned();
        plan.anchors = anchors;
        plan.price_adjustment = self.adjustment.clone().map(|(kind, amount)| PriceAdjustment {
            name: "deal".to_owned(),
            description: None,
            kind,
            amount,
        });
        plan
    }
}

/// A change of the subscription.
#[derive(Clone, Debug)]
enum Change {
    Cancel(Cancellation, InvoicingBehavior),
    /// To the other of the two plans.
    Switch(InvoicingBehavior, SwitchUsageBehavior),
    /// Of which component, how many, and whether more are invoiced at once.
    PrepaidUnits(usize, BigDecimal, bool),
    /// Of one of the latest invoices, where that can be.
    Void(usize),
    /// The organization's tax rate.
    Tax(BigDecimal),
}

/// What a life leaves behind.
#[derive(Debug, PartialEq)]
pub struct Books {
    /// Oldest first.
    pub invoices: Vec<Invoice>,
    /// Newest first.
    pub credits: Vec<CreditLedger>,
    /// Each billing record as it is in the end.
    pub records: BTreeMap<BillingRecordId, Recorded>,
}

/// What a billing record says in the end, whatever lines tell of it.
#[derive(Debug, PartialEq)]
pub struct Recorded {
    /// Whose it is.
    pub subscription: Subscription,
    /// Its prepaid units as a trace tells of them, each part of its time with the walk through the tiers.
    pub segments: Value,
}

#[derive(Clone, Debug)]
pub struct Metered {
    tiers: TierSchedule,
    invoicing_interval: Option<Interval>,
    reset_interval: Option<Interval>,
    prepaid: Option<(BigDecimal, ChargeBehavior)>,
}

pub fn any_interval() -> impl Strategy<Value = Option<Interval>> {
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

pub fn any_priced() -> impl Strategy<Value = Priced> {
    let components = prop::collection::vec(any_component(), 0..3);
    (any_fees(), components, any_adjustment()).prop_map(|(fees, components, adjustment)| Priced {
        fees,
        components,
        adjustment,
    })
}

fn any_change() -> impl Strategy<Value = Change> {
    let invoicing = || prop::sample::select(InvoicingBehavior::ALL.to_vec());
    let fees = prop::option::of(prop::sample::select(FlatFeeBehavior::ALL.to_vec()));
    let cancellation = (fees, prop::sample::select(UsageBehavior::ALL.to_vec()))
        .prop_map(|(flat_fee_behavior, usage_behavior)| Cancellation { flat_fee_behavior, usage_behavior });
    prop_oneof![
        1 => (cancellation, invoicing()).prop_map(|(cancellation, invoicing)| Change::Cancel(cancellation, invoicing)),
        2 => (invoicing(), prop::sample::select(SwitchUsageBehavior::ALL.to_vec()))
            .prop_map(|(invoicing, usage)| Change::Switch(invoicing, usage)),
        2 => (0..2_usize, any_quantity(), any::<bool>())
            .prop_map(|(component, units, invoice_now)| Change::PrepaidUnits(component, units, invoice_now)),
        2 => (0..3_usize).prop_map(Change::Void),
        1 => (0..4_000_i64).prop_map(|rate| Change::Tax(BigDecimal::new(rate.into(), 2))),
    ]
}

/// Instants of the life: any minute, or a midnight, more of them in its first months.
fn any_moment() -> impl Strategy<Value = Duration> {
    let within = |days: i64| {
        prop_oneof![3 => 0..days * 24 * 60, 1 => (0..days).prop_map(|day| day * 24 * 60)].prop_map(Duration::minutes)
    };
    prop_oneof![3 => within(70), 1 => within(DAYS)]
}

/// The last days of January, the first of February, and midnights: where months are short.
pub fn any_start() -> impl Strategy<Value = OffsetDateTime> {
    (0..6_i64, any::<bool>()).prop_map(|(days, midnight)| {
        let start = START + Duration::days(days);
        if midnight { start.replace_time(time::Time::MIDNIGHT) } else { start }
    })
}

pub fn any_life() -> impl Strategy<Value = Life> {
    let plan = (
        prop::sample::select(PlanDuration::ALL.to_vec()),
        prop::sample::select(vec!["USD", "JPY", "KWD"]),
        (prop::option::of(1..=31_u8), prop::option::of(1..=12_u8)),
        [any_priced(), any_priced()],
    );
    let tax_rate = prop::option::of((0..4_000_i64).prop_map(|rate| BigDecimal::new(rate.into(), 2)));
    let credit = prop::option::of((1..500_i64).prop_map(BigDecimal::from));
    let events = prop::collection::vec((0..2_usize, any_moment(), -20..200_i64), 0..25);
    let changes = prop::collection::vec((any_moment(), any_change()), 0..6);
    (any_start(), plan, tax_rate, credit, events, changes).prop_map(
        |(start, (duration, currency, (day, month), plans), tax_rate, credit, events, mut changes)| {
            changes.sort_by_key(|(after, _)| *after);
            let anchors = Anchors { day, month };
            Life { start, duration, currency, anchors, plans, tax_rate, credit, events, changes }
        },
    )
}

impl Life {
    /// Lives it, with billing runs at these instants, in order, besides those that the changes bring with them.
    pub fn books(&self, runs: &[OffsetDateTime]) -> Books {
        self.books_by(runs, &|world, run| world.advance("acme", run))
    }

    /// [`Life::books`] by billing runs that do a few steps in each transaction.
    pub fn books_in_parts(&self, runs: &[OffsetDateTime], work_max: usize) -> Books {
        self.books_by(runs, &|world, run| world.advance_partly("acme", run, work_max))
    }

    fn books_by(&self, runs: &[OffsetDateTime], advance: &dyn Fn(&World, OffsetDateTime)) -> Books {
        let world = World::at(self.start);
        world.set(&OrganizationPatch { tax_rate: Some(self.tax_rate.clone()), ..OrganizationPatch::default() });
        let metrics = [0, 1].map(|index| world.metric(&format!("event-{index}"), Some("n")).id);
        let plans = self
            .plans
            .each_ref()
            .map(|priced| world.plan(Some(self.duration), priced.version(metrics, self.currency, self.anchors)));
        world.customer("acme");
        self.grant_credit(&world);
        for (index, after, amount) in &self.events {
            world.track("acme", &format!("event-{index}"), self.start + *after, &json!({ "n": amount }));
        }
        world.subscribe(&subscription("acme", plans[0], self.start)).expect("subscribed");
        let mut runs = runs.iter().copied().peekable();
        for (after, change) in &self.changes {
            let at = self.start + *after;
            while let Some(run) = runs.next_if(|run| *run <= at) {
                advance(&world, run);
            }
            world.store.set_now(at);
            Self::apply(&world, change, plans, metrics);
        }
        runs.for_each(|run| advance(&world, run));
        books(&world)
    }

    fn grant_credit(&self, world: &World) {
        let Some(amount) = &self.credit else { return };
        let command = CreateCredit {
            customer: "acme".parse().expect("an id"),
            amount: amount.clone(),
            currency_code: self.currency.to_owned(),
            description: None,
            effective_at: None,
            expires_at: Some(self.start + Duration::days(60)),
            amount_paid: BigDecimal::zero(),
            amount_paid_currency_code: None,
        };
        world.on("acme", |tx, now| create_credit(tx, &command, now)).expect("a credit");
    }

    /// Changes the running subscription, if there is one still. What cannot be done is refused and leaves no trace.
    fn apply(world: &World, change: &Change, plans: [PlanId; 2], metrics: [MetricId; 2]) {
        let customer = world.key("acme");
        let now = world.on("acme", |tx, now| bill_customer(tx, customer, now).map(|_| now)).expect("billing");
        match change {
            Change::Tax(rate) => {
                world.set(&OrganizationPatch { tax_rate: Some(Some(rate.clone())), ..OrganizationPatch::default() });
                return;
            }
            Change::Void(back) => {
                let invoices = world.on("acme", |tx, _| all_invoices(tx, customer)).expect("invoices");
                let Some(invoice) = invoices.iter().nth_back(*back) else { return };
                match world.on("acme", |tx, now| void_invoice(tx, customer, invoice.id, now)) {
                    Ok(_) | Err(Error::Refused(Refusal::InvoiceNotUnpaid | Refusal::LinesTakenBack(_))) => return,
                    Err(error) => panic!("{change:?}: {error:?}"),
                }
            }
            _ => {}
        }
        let running = |subscription: &Subscription| {
            subscription.replaced_by.is_none() && subscription.status(now) == SubscriptionStatus::Active
        };
        let Some(subscription) = world.subscriptions("acme").into_iter().find(running) else { return };
        let outcome: Result<(), Error> = match change {
            Change::Cancel(cancellation, invoicing_behavior) => {
                let (cancellation, invoicing_behavior) = (*cancellation, *invoicing_behavior);
                let subscriptions = vec![subscription.id];
                let command = CancelSubscription { customer, subscriptions, cancellation, invoicing_behavior };
                world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).map(drop)
            }
            Change::Switch(invoicing_behavior, usage_behavior) => {
                let other = plans.into_iter().find(|plan| *plan != subscription.plan).expect("two plans");
                let command = SwitchPlan {
                    customer,
                    subscription: subscription.id,
                    version: VersionChoice::Plan(other),
                    invoicing_behavior: *invoicing_behavior,
                    usage_behavior: *usage_behavior,
                    prepaid_units: Vec::new(),
                };
                world.on("acme", |tx, now| switch_plan(tx, &command, now)).map(drop)
            }
            Change::PrepaidUnits(index, units, invoice_now) => {
                let (metric, units, invoice_now) = (metrics[*index], units.clone(), *invoice_now);
                let command =
                    ChangePrepaidUnits { customer, subscription: subscription.id, metric, units, invoice_now };
                world.on("acme", |tx, now| change_prepaid_units(tx, &command, now)).map(drop)
            }
            Change::Void(_) | Change::Tax(_) => return,
        };
        if let Err(error) = outcome {
            assert!(matches!(error, Error::Fields(_)), "{change:?}: {error:?}");
        }
    }
}

/// All in one transaction: each of them copies the world.
fn books(world: &World) -> Books {
    let customer = world.key("acme");
    let read = world.on("acme", |tx, _| {
        let credits = tx.credits().list(customer)?;
        let invoices = all_invoices(tx, customer)?;
        // A switch takes a subscription off the list; what was charged for leads from one to the next.
        let charged = invoices.iter().flat_map(|invoice| &invoice.lines).filter_map(|line| line.subscription);
        let listed = tx.subscriptions().list(customer)?;
        let mut ids: Vec<_> = charged.chain(listed.into_iter().map(|subscription| subscription.id)).collect();
        let (mut records, mut seen) = (BTreeMap::new(), BTreeSet::new());
        while let Some(id) = ids.pop() {
            if !seen.insert(id) {
                continue;
            }
            let subscription = tx.subscriptions().get(customer, id)?;
            for record in tx.billing_records().list(customer, id)? {
                let segments = segments(&record, &tx.plans().get_version(record.version)?);
                records.insert(record.id, Recorded { subscription: subscription.clone(), segments });
            }
            ids.extend(subscription.replaced_by);
        }
        Ok(Books { invoices, credits, records })
    });
    read.expect("books")
}

/// The prepaid units that the record bills itself: those before a switch were billed by another.
fn segments(record: &BillingRecord, version: &PlanVersion) -> Value {
    let Some(Charge::Component(component)) = version.charge(record.charge) else { return Value::Null };
    let prepaid = record.prepaid.iter().flat_map(|prepaid| &prepaid.segments);
    let own = prepaid.filter(|segment| segment.settled.is_none()).map(|segment| {
        let rating = component.tiers.rate(&segment.units);
        json!({ "window": segment.period, "fraction": segment.period.fraction_of(&record.full), "rating": rating })
    });
    own.collect()
}

/// Oldest first.
fn all_invoices(tx: &mut dyn Transaction, customer: CustomerKey) -> Result<Vec<Invoice>, Error> {
    let filter = InvoiceFilter::of(customer);
    let (mut page, mut invoices) = (PageRequest::first(), Vec::new());
    loop {
        let part = tx.invoices().list(&filter, &page)?;
        invoices.extend(part.items);
        match part.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    invoices.reverse();
    Ok(invoices)
}

pub fn end() -> OffsetDateTime {
    START + Duration::days(DAYS)
}
