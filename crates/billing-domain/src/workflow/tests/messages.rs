//! What is told, in which order, and that nothing else is.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::credit::CreditLedger;
use crate::error::Refusal;
use crate::id::{InvoiceId, PlanId, SubscriptionId};
use crate::invoice::PaymentStatus;
use crate::message::{Message, Payload};
use crate::period::PlanDuration;
use crate::plan::ChargeTiming;
use crate::store::{BillingQueue, FeedRequest, Scope, Store};
use crate::subscription::{Cancellation, InvoicingBehavior, SwitchUsageBehavior, UsageBehavior};
use crate::testing::world::{World, decimal, fee, subscription, version};
use crate::workflow::{
    CancelSubscription, CreateCredit, OrganizationPatch, SwitchPlan, UpdateInvoice, UpdateSubscription, VersionChoice,
    cancel_subscription, create_credit, delete_customer, park_billing, switch_plan, update_invoice,
    update_subscription, void_credit, void_invoice,
};

const NOW: OffsetDateTime = datetime!(2024-01-15 12:00 UTC);

/// What was told since somebody looked last.
struct Listener<'w> {
    world: &'w World,
    after: u64,
}

impl<'w> Listener<'w> {
    fn new(world: &'w World) -> Self {
        let mut listener = Self { world, after: 0 };
        listener.messages();
        listener
    }

    fn messages(&mut self) -> Vec<Message> {
        let store: &dyn Store = &self.world.store;
        let wanted = FeedRequest { after: self.after, types: Vec::new(), limit: 1_000 };
        let page = store.run_for(&Scope::Organization(self.world.organization), |tx, _| tx.messages().list(&wanted));
        let page = page.expect("a feed");
        self.after = page.reached;
        page.messages.into_iter().map(|(_, message)| message).collect()
    }

    fn heard(&mut self) -> Vec<&'static str> {
        self.messages().iter().map(|message| message.message_type.as_str()).collect()
    }
}

/// A plan of a fee in advance, and the customer `acme`, who has 30 days to pay.
fn world(amount: &str) -> (World, PlanId) {
    let world = World::at(NOW);
    let patch = OrganizationPatch { payment_grace_period_days: Some(Some(30)), ..OrganizationPatch::default() };
    world.set(&patch);
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee(amount, ChargeTiming::InAdvance)], Vec::new()));
    world.customer("acme");
    (world, plan)
}

fn subscribe(world: &World, plan: PlanId) -> SubscriptionId {
    world.subscribe(&subscription("acme", plan, NOW)).expect("a subscription").id
}

fn credit(world: &World, amount: &str, expires_at: Option<OffsetDateTime>) -> CreditLedger {
    let command = CreateCredit {
        customer: "acme".parse().expect("an id"),
        amount: decimal(amount),
        currency_code: "USD".to_owned(),
        description: None,
        effective_at: None,
        expires_at,
        amount_paid: decimal("0"),
        amount_paid_currency_code: None,
    };
    world.on("acme", |tx, now| create_credit(tx, &command, now)).expect("a credit")
}

fn invoice_of(message: &Message) -> Option<InvoiceId> {
    match message.payload {
        Payload::Invoice(id) => Some(id),
        Payload::Json(_) => None,
    }
}

#[test]
fn a_life_is_told_in_its_order() {
    let (world, plan) = world("30");
    let mut listener = Listener { world: &world, after: 0 };
    assert_eq!(listener.heard(), ["plan.version_published", "customer.created"]);
    let id = subscribe(&world, plan);
    assert_eq!(listener.heard(), ["subscription.created", "invoice.created"]);
    let key = world.key("acme");
    let change = UpdateSubscription {
        customer: key,
        subscription: id,
        end: None,
        turn_off_auto_renew: false,
        metadata: Some(serde_json::Map::new()),
    };
    world.on("acme", |tx, now| update_subscription(tx, &change, now)).expect("changed");
    assert_eq!(listener.heard(), ["subscription.changed"]);
    credit(&world, "40", None);
    assert_eq!(listener.heard(), ["credit.created"]);
    world.advance("acme", NOW + Duration::days(32));
    let told = listener.messages();
    let heard: Vec<_> = told.iter().map(|message| message.message_type.as_str()).collect();
    let expected = ["invoice.past_due", "subscription.renewed", "credit.drawn", "invoice.created", "invoice.paid"];
    assert_eq!(heard, expected, "what fell due before the renewal, and an invoice that credits pay");
    assert_eq!(told[0].at, NOW + Duration::days(30), "when it fell due, not when somebody came by");
    assert_eq!(told[1].at, datetime!(2024-02-15 12:00 UTC));
    world.advance("acme", NOW + Duration::days(34));
    assert_eq!(listener.heard(), [""; 0], "each is told once");
}

#[test]
fn payment_and_withdrawal_are_told_and_end_the_wait() {
    let (world, plan) = world("30");
    subscribe(&world, plan);
    let mut listener = Listener::new(&world);
    let key = world.key("acme");
    let invoice = world.invoices("acme")[0].id;
    let pay = |is_paid| {
        let command = UpdateInvoice { customer: key, invoice, is_paid };
        world.on("acme", |tx, now| update_invoice(tx, &command, now))
    };
    pay(false).expect("nothing changes");
    assert_eq!(listener.heard(), [""; 0], "nothing became true");
    pay(true).expect("paid");
    let told = listener.messages();
    assert_eq!(told.iter().map(invoice_of).collect::<Vec<_>>(), [Some(invoice)]);
    assert_eq!(told[0].message_type.as_str(), "invoice.paid");
    pay(true).expect_err("it is paid");
    world.advance("acme", NOW + Duration::days(30));
    assert_eq!(listener.heard(), [""; 0], "nobody waits for it any more");

    world.advance("acme", NOW + Duration::days(32));
    assert_eq!(listener.heard(), ["subscription.renewed", "invoice.created"]);
    let unpaid = world.invoices("acme").into_iter().find(|one| one.payment_status == PaymentStatus::Unpaid);
    let unpaid = unpaid.expect("the second").id;
    world.on("acme", |tx, now| void_invoice(tx, key, unpaid, now)).expect("voided");
    assert_eq!(listener.heard(), ["invoice.voided"]);
    world.advance("acme", NOW + Duration::days(63));
    let heard = listener.heard();
    assert_eq!(heard, ["subscription.renewed", "invoice.created"], "what was withdrawn falls due no more");
}

#[test]
fn what_becomes_of_credits_is_told() {
    let (world, _) = world("30");
    let mut listener = Listener::new(&world);
    let key = world.key("acme");
    let first = credit(&world, "5", None).credit().id;
    credit(&world, "7", Some(NOW + Duration::DAY));
    world.on("acme", |tx, now| void_credit(tx, key, first, now)).expect("voided");
    world.on("acme", |tx, now| void_credit(tx, key, first, now)).expect("nothing happens");
    assert_eq!(listener.heard(), ["credit.created", "credit.created", "credit.voided"]);
    world.advance("acme", NOW + Duration::days(2));
    let told = listener.messages();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].message_type.as_str(), told[0].at), ("credit.expired", NOW + Duration::DAY));
}

#[test]
fn switches_cancellations_and_deletions_are_told() {
    let (world, plan) = world("30");
    let other = version(vec![fee("50", ChargeTiming::InAdvance)], Vec::new());
    let other = world.plan(Some(PlanDuration::Monthly), other);
    let id = subscribe(&world, plan);
    let mut listener = Listener::new(&world);
    let key = world.key("acme");
    let switch = SwitchPlan {
        customer: key,
        subscription: id,
        version: VersionChoice::Plan(other),
        invoicing_behavior: InvoicingBehavior::InvoiceNow,
        usage_behavior: SwitchUsageBehavior::TransferToNewSubscription,
        prepaid_units: Vec::new(),
    };
    let new = world.on("acme", |tx, now| switch_plan(tx, &switch, now)).expect("switched").id;
    assert_eq!(listener.heard(), ["subscription.switched", "invoice.created"]);
    let cancel = CancelSubscription {
        customer: key,
        subscriptions: vec![new],
        cancellation: Cancellation { flat_fee_behavior: None, usage_behavior: UsageBehavior::BillFull },
        invoicing_behavior: InvoicingBehavior::InvoiceNow,
    };
    world.on("acme", |tx, now| cancel_subscription(tx, &cancel, now)).expect("cancelled");
    let heard = listener.heard();
    assert_eq!(heard, ["subscription.cancelled", "credit.created", "invoice.created", "invoice.paid"]);
    subscribe(&world, plan);
    listener.heard();
    world.on("acme", |tx, now| delete_customer(tx, key, now)).expect("deleted");
    assert_eq!(listener.heard(), ["subscription.cancelled"]);
}

/// A subscription whose start is to come has no time left once it is cancelled, and is not cancelled again.
#[test]
fn what_was_called_off_before_its_start_stays_as_it_is() {
    let (world, plan) = world("30");
    let start = NOW + Duration::days(10);
    let id = world.subscribe(&subscription("acme", plan, start)).expect("a subscription").id;
    let end = world.subscription("acme", id).period.end();
    let mut listener = Listener::new(&world);
    let key = world.key("acme");
    let cancel = CancelSubscription {
        customer: key,
        subscriptions: vec![id],
        cancellation: Cancellation { flat_fee_behavior: None, usage_behavior: UsageBehavior::BillFull },
        invoicing_behavior: InvoicingBehavior::InvoiceNow,
    };
    world.on("acme", |tx, now| cancel_subscription(tx, &cancel, now)).expect("cancelled");
    let heard = listener.heard();
    assert!(heard.starts_with(&["subscription.cancelled"]), "{heard:?}");
    let invoices = world.invoices("acme");
    let is_untouched = || {
        assert_eq!(world.subscription("acme", id).uncancelled_end, Some(end), "the end that it had");
        assert_eq!(world.invoices("acme"), invoices, "nothing comes back twice");
    };
    let again = world.on("acme", |tx, now| cancel_subscription(tx, &cancel, now));
    assert_eq!(again.expect_err("it is cancelled"), Refusal::AlreadyEnded.into());
    is_untouched();
    let deleted = world.on("acme", |tx, now| delete_customer(tx, key, now)).expect("deleted");
    assert_eq!((deleted.subscriptions, deleted.addons), (0, 0), "nothing is left to end");
    assert_eq!(listener.heard(), [""; 0]);
    is_untouched();
}

#[test]
fn what_fails_tells_nothing() {
    let (world, plan) = world("30");
    subscribe(&world, plan);
    let mut listener = Listener::new(&world);
    world.subscribe(&subscription("acme", plan, NOW)).expect_err("they overlap");
    assert_eq!(listener.heard(), [""; 0]);
}

#[test]
fn being_left_alone_is_told_once() {
    let (world, plan) = world("30");
    subscribe(&world, plan);
    let mut listener = Listener::new(&world);
    world.store.set_now(NOW + Duration::days(31));
    let leased = world.store.lease_due(10, Duration::hours(1), None, &[]).expect("leased");
    let park = || {
        world.on("acme", |tx, now| park_billing(tx, &leased[0], "no luck", now)).expect("noted");
    };
    park();
    park();
    assert_eq!(listener.heard(), ["customer.billing_parked"], "the second time it was not leased any more");
}
