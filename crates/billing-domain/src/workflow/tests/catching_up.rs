use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use super::plan::{change, versions};
use crate::addon::{AddonTerms, BillingFrequency, InvoiceWhen};
use crate::error::{Error, FieldCode, Refusal};
use crate::id::{MetricId, PlanId};
use crate::invoice::Invoice;
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::ChargeTiming::{InAdvance, InArrears};
#[cfg(feature = "service")]
use crate::store::BillingQueue;
use crate::store::Transaction;
use crate::subscription::{Cancellation, InvoicingBehavior, Subscription, UsageBehavior};
use crate::testing::world::{World, component, decimal, fee, subscription, tiers, version};
use crate::workflow::bill_customer::CALL_WORK_MAX;
use crate::workflow::create_subscription::create_within;
use crate::workflow::{
    CancelSubscription, CreateCredit, CustomerPatch, NewRecurringCharge, OrganizationPatch, UpdateInvoice,
    UpdatePlanVersion, bill_customer, cancel_subscription, create_credit, delete_customer, draft_invoice,
    update_customer, update_invoice, update_plan_version,
};

/// The last of a month, so that starts before it meet short months.
const NOW: OffsetDateTime = datetime!(2026-05-31 9:30 UTC);
/// Seven renewals ago.
const START: OffsetDateTime = datetime!(2025-10-31 9:30 UTC);

/// A plan of months with fees of both kinds and usage, that goes on with a plan which meters the same each week.
struct Past {
    world: World,
    metric: MetricId,
    plan: PlanId,
}

impl Past {
    fn new() -> Self {
        let world = World::at(NOW);
        world.set(&OrganizationPatch { tax_rate: Some(Some(decimal("7.7"))), ..OrganizationPatch::default() });
        let metric = world.metric("call", None).id;
        let usage = component(metric, tiers(&[("0", "3", "free"), ("3", "", "0.37")]));
        let weekly = Some(Interval::new(IntervalUnit::Week, 1).expect("a week"));
        let mut each_week = usage.clone();
        (each_week.reset_interval, each_week.invoicing_interval) = (weekly, weekly);
        let later = world.plan(Some(PlanDuration::Monthly), version(vec![fee("33.33", InAdvance)], vec![each_week]));
        let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("10.01", InAdvance), rest()], vec![usage]));
        let from = versions(&world, plan)[0].id;
        let command = UpdatePlanVersion { transition_to: Some(Some(later)), ..change(from) };
        world.catalog(|tx, now| update_plan_version(tx, &command, now)).expect("a transition");
        world.customer("acme");
        for day in 0..(NOW - START).whole_days() {
            world.track_many("acme", "call", START + Duration::days(day), 2);
        }
        let credit = CreateCredit { amount: decimal("77.77"), ..grant() };
        world.on("acme", |tx, now| create_credit(tx, &credit, now)).expect("a credit");
        Self { world, metric, plan }
    }

    fn create(&self, work_max: usize) -> Subscription {
        let command = subscription("acme", self.plan, START);
        self.world.on("acme", |tx, now| create_within(tx, &command, now, work_max)).expect("created").subscription
    }

    fn is_catching_up(&self) -> bool {
        let key = self.world.key("acme");
        self.world.on("acme", |tx, _| tx.customers().get(key)).expect("a customer").catching_up
    }

    /// Attaches an add-on to what runs by now, and cancels that a little later.
    fn go_on(&self) -> Vec<Invoice> {
        let running = self.world.subscriptions("acme").pop().expect("it was renewed");
        assert!(running.period.contains(NOW));
        let other = self.world.metric("byte", None).id;
        let terms =
            AddonTerms { billing_frequency: BillingFrequency::Recurring, invoice_when: InvoiceWhen::InvoiceOnAttach };
        let content = version(vec![fee("3", InAdvance)], vec![component(other, tiers(&[("0", "", "1")]))]);
        let addon = self.world.addon(terms, content);
        self.world.attach("acme", running.id, addon.id, 2).expect("attached");
        self.world.store.set_now(NOW + Duration::days(3));
        let command = CancelSubscription {
            customer: self.world.key("acme"),
            subscriptions: vec![running.id],
            cancellation: Cancellation { flat_fee_behavior: None, usage_behavior: UsageBehavior::BillFull },
            invoicing_behavior: InvoicingBehavior::InvoiceNow,
        };
        self.world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
        self.world.invoices("acme")
    }
}

/// A second fee beside the base fee.
fn rest() -> NewRecurringCharge {
    NewRecurringCharge { name: "rest".to_owned(), ..fee("5", InArrears) }
}

fn grant() -> CreateCredit {
    CreateCredit {
        customer: "acme".parse().expect("an id"),
        amount: decimal("1"),
        currency_code: "USD".to_owned(),
        description: None,
        effective_at: None,
        expires_at: None,
        amount_paid: decimal("0"),
        amount_paid_currency_code: None,
    }
}

#[test]
fn a_past_billed_in_parts_is_the_past_billed_at_once() {
    let at_once = Past::new();
    at_once.create(usize::MAX);
    assert!(!at_once.is_catching_up(), "all of it is done");
    let expected = at_once.go_on();
    assert!(expected.len() > 20, "months, then weeks: {}", expected.len());
    for work_max in (0..60).step_by(7) {
        let past = Past::new();
        past.create(work_max);
        assert!(past.is_catching_up(), "{work_max}: there is more");
        past.world.advance_partly("acme", NOW, work_max);
        assert!(!past.is_catching_up(), "{work_max}: it is done");
        assert_eq!(past.go_on(), expected, "{work_max}");
    }
}

#[test]
fn whoever_catches_up_is_left_alone_until_it_is_done() {
    let past = Past::new();
    let created = past.create(30);
    let (world, key) = (&past.world, past.world.key("acme"));
    let invoices = world.invoices("acme");
    let refused = |result: Result<(), Error>, what: &str| {
        assert_eq!(result, Err(Refusal::CatchingUp.into()), "{what}");
    };
    refused(world.subscribe(&subscription("acme", past.plan, NOW)).map(drop), "another subscription");
    refused(world.on("acme", |tx, now| create_credit(tx, &grant(), now)).map(drop), "a credit");
    let patch = CustomerPatch::of_fields(|fields| fields.tax_rate = None);
    refused(world.on("acme", |tx, now| update_customer(tx, key, &patch, now)).map(drop), "another tax rate");
    refused(world.on("acme", |tx, now| delete_customer(tx, key, now)).map(drop), "its end");
    assert_eq!(world.invoices("acme"), invoices, "nothing has changed");

    let unpaid = invoices.iter().find(|invoice| invoice.payment_status.as_str() == "unpaid").expect("one to pay");
    let paid = UpdateInvoice { customer: key, invoice: unpaid.id, is_paid: true };
    world.on("acme", |tx, now| update_invoice(tx, &paid, now)).expect("a payment that came in");
    let command = crate::workflow::DraftInvoice { customer: "acme".parse().expect("an id"), include_next_period: true };
    let draft = world.on("acme", |tx, now| draft_invoice(tx, &command, now)).expect("a draft");
    assert!(!draft.invoices.is_empty(), "what is cut next");
    let access = world.access("acme", past.metric, &created.filters).expect("an answer");
    assert_eq!(access.subscriptions.len(), 1, "as if it were renewed up to now");

    #[cfg(feature = "service")]
    {
        assert_eq!(world.store.lease_due(9, Duration::HOUR, None, &[]), Ok(Vec::new()), "not with those who fall due");
        let leased = world.store.lease_catching_up(9, Duration::HOUR, None, &[]).expect("leased");
        assert_eq!(leased.iter().map(|one| one.customer).collect::<Vec<_>>(), [key]);
    }
    world.on("acme", |tx, now| bill_customer(tx, key, now)).expect("billed");
    world.on("acme", |tx, now| create_credit(tx, &grant(), now)).expect("it is done");
}

#[test]
fn a_call_does_what_is_usual_and_refuses_what_never_ends() {
    let daily = Interval::new(IntervalUnit::Day, 1).ok();
    let mut by_day = fee("1", InArrears);
    (by_day.reset_interval, by_day.invoicing_interval) = (daily, daily);
    let monthly = vec![fee("10", InAdvance), rest()];
    #[rustfmt::skip]
    let cases = [
        // charges,             days ago, accepted, done at once, why
        (monthly.clone(),       366,      true,     true,         "a year of months"),
        (vec![by_day.clone()],  31,       true,     true,         "a month of days"),
        (vec![by_day.clone()],  366,      true,     false,        "a year of days"),
        (vec![by_day.clone()],  1_200,    true,     false,        "the bound"),
        (vec![by_day],          1_201,    false,    false,        "beyond it"),
        (monthly.clone(),       12_000,   true,     false,        "decades of months"),
        (monthly,               36_600,   false,    false,        "more than a century of them"),
    ];
    for (charges, days, accepted, done, why) in cases {
        let world = World::at(NOW);
        let plan = world.plan(Some(PlanDuration::Monthly), version(charges, Vec::new()));
        let key = world.customer("acme");
        let result = world.subscribe(&subscription("acme", plan, NOW - Duration::days(days)));
        let customer = world.on("acme", |tx, _| tx.customers().get(key)).expect("a customer");
        assert_eq!((result.is_ok(), !customer.catching_up), (accepted, done || !accepted), "{why}: {result:?}");
        if let Err(error) = result {
            let Error::Fields(errors) = error else { panic!("{why}: {error}") };
            assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("start_date", FieldCode::MinValue), "{why}");
        }
    }
}

#[test]
fn what_ends_long_before_now_is_not_counted_behind_its_end() {
    let world = World::at(NOW);
    let daily = Interval::new(IntervalUnit::Day, 1).ok();
    let mut by_day = fee("1", InArrears);
    (by_day.reset_interval, by_day.invoicing_interval) = (daily, daily);
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![by_day], Vec::new()));
    world.customer("acme");
    let mut command = subscription("acme", plan, NOW - Duration::days(1_190));
    (command.end, command.auto_renew) = (Some(NOW + Duration::days(1)), false);
    world.subscribe(&command).expect("within the bound");
}

#[test]
fn a_call_that_meets_more_than_it_does_leaves_it_to_the_run() {
    let world = World::at(START);
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("1", InAdvance)], Vec::new()));
    let key = world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    world.store.set_now(START + Duration::days(20 * 366));
    let credit = |tx: &mut dyn Transaction, now| create_credit(tx, &grant(), now);
    let refused = world.on("acme", credit).map(drop);
    assert_eq!(refused, Err(Refusal::CatchingUp.into()), "nobody has billed for years");
    assert_eq!(world.invoices("acme").len(), 1, "and nothing is done by halves");
    world.on("acme", |tx, now| bill_customer(tx, key, now)).expect("billed");
    world.on("acme", credit).expect("granted");
    assert!(world.invoices("acme").len() > CALL_WORK_MAX / 3);
}
