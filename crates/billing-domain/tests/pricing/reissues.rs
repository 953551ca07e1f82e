//! Corrections of what was billed: by the next invoice, by credit notes, and by invoices that are issued anew.

use billing_domain::BigDecimal;
use billing_domain::credit::CreditLedger;
use billing_domain::credit_note::Settlement;
use billing_domain::decimal::plain;
use billing_domain::id::InvoiceId;
use billing_domain::invoice::{Invoice, PaymentStatus};
use billing_domain::payment::PaymentKind;
use billing_domain::period::PlanDuration;
use billing_domain::plan::ChargeTiming;
use billing_domain::store::{CreditNoteFilter, PageRequest, Transaction};
use billing_domain::subscription::{Cancellation, FlatFeeBehavior, InvoicingBehavior, UsageBehavior};
use billing_domain::testing::world::{World, component, fee, subscription, tiers, version};
use billing_domain::workflow::{
    CancelSubscription, CorrectEvents, CreateCreditNote, EventChange, NotePayment, OrganizationPatch, ReversePayment,
    Share, WantedCorrection, cancel_subscription, correct_events, create_credit_note, note_payment,
    preview_corrections, reissue_invoice, reverse_payment, void_credit_note,
};
use time::OffsetDateTime;
use time::macros::datetime;

use super::{instant, number, table};

const CORRECTED: &str = "| what happens | on | owed next | owed by a note | due | credit left |";
const REISSUED: &str = "| what happened before | first, anew | all invoices that stand |";
pub const TABLES: [&str; 2] = [CORRECTED, REISSUED];

const JANUARY: OffsetDateTime = datetime!(2026-01-01 00:00 UTC);
const LATE_IN_JANUARY: OffsetDateTime = datetime!(2026-01-28 00:00 UTC);

fn last(world: &World) -> Invoice {
    world.invoices("acme").pop().expect("an invoice")
}

/// Voids the next so many of the customer's events.
fn void_calls(world: &World, voided: &mut u32, count: u32) {
    let wanted = |number| WantedCorrection {
        idempotency_id: format!("event-{number}"),
        change: EventChange::Void,
        attr: String::new(),
    };
    let command = CorrectEvents {
        customer: world.key("acme"),
        corrections: (*voided + 1..=*voided + count).map(wanted).collect(),
        beyond_window: false,
        by: None,
        reason: None,
    };
    *voided += count;
    world.on("acme", |tx, now| correct_events(tx, &command, now)).expect("voided");
}

fn credit(world: &World, share: Option<Share>) {
    let command = CreateCreditNote {
        customer: world.key("acme"),
        invoice: last(world).id,
        lines: Vec::new(),
        corrections: share.is_none(),
        share,
        reason: "disputed".to_owned(),
        settlement: Settlement::Balance,
        reference: None,
    };
    world.on("acme", |tx, now| create_credit_note(tx, &command, now)).expect("credited");
}

fn void_note(world: &World, place: usize) {
    let customer = world.key("acme");
    let filter = CreditNoteFilter { customer: Some(customer), invoice: None };
    let listed = |tx: &mut dyn Transaction, _| tx.invoices().list_credit_notes(&filter, &PageRequest::first());
    let mut notes = world.on("acme", listed).expect("credit notes").items;
    notes.sort_by_key(|note| note.number.rsplit('-').next().map(str::to_owned));
    let id = notes[place - 1].id;
    world.on("acme", |tx, now| void_credit_note(tx, customer, id, now)).expect("voided");
}

fn pay(world: &World, amount: &str) {
    let (customer, invoice, amount) = (world.key("acme"), last(world).id, number(amount));
    let command = NotePayment { customer, invoice, amount, at: None, method: None, reference: None };
    world.on("acme", |tx, now| note_payment(tx, &command, now)).expect("noted");
}

fn bounce(world: &World) {
    let (customer, invoice) = (world.key("acme"), last(world).id);
    let entries = world.on("acme", |tx, _| tx.invoices().list_payments(customer, Some(invoice))).expect("payments");
    let payment = entries.into_iter().find(|entry| entry.kind == PaymentKind::Payment).expect("a payment").id;
    let command = ReversePayment { customer, invoice, payment, at: None, reason: None };
    world.on("acme", |tx, now| reverse_payment(tx, &command, now)).expect("reversed");
}

fn tax_20(world: &World) {
    world.set(&OrganizationPatch { tax_rate: Some(Some(number("20"))), ..OrganizationPatch::default() });
}

fn reissue(world: &World, id: InvoiceId) -> Invoice {
    let customer = world.key("acme");
    let (_, new) = world.on("acme", |tx, now| reissue_invoice(tx, customer, id, now)).expect("reissued");
    world.on("acme", |tx, _| tx.invoices().get(new)).expect("the new one")
}

#[test]
fn what_is_owed_is_shown_and_settled() {
    let world = World::at(JANUARY);
    tax_20(&world);
    world.customer("acme");
    let calls = component(world.metric("call", None).id, tiers(&[("0", "", "1")]));
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![calls]));
    world.subscribe(&subscription("acme", plan, JANUARY)).expect("subscribed");
    world.track_many("acme", "call", LATE_IN_JANUARY, 10);
    let mut voided = 0;
    for row in table(CORRECTED) {
        world.advance("acme", instant(&row[1]));
        match row[0].split(' ').collect::<Vec<_>>()[..] {
            [_, "is", "invoiced"] => {}
            [count, "calls", "are", "voided"] => void_calls(&world, &mut voided, count.parse().expect("a number")),
            ["corrections", "are", "credited"] => credit(&world, None),
            [amount, "are", "credited"] => credit(&world, Some(Share::Amount(number(amount)))),
            ["note", place, "is", "voided"] => void_note(&world, place.parse().expect("a number")),
            [amount, "come"] => pay(&world, amount),
            ["the", "payment", "bounces"] => bounce(&world),
            ["it", "is", "issued", "anew"] => drop(reissue(&world, last(&world).id)),
            [count, _, _, "late"] => {
                world.track_many("acme", "call", LATE_IN_JANUARY, count.parse().expect("a number"));
            }
            _ => panic!("{row:?}"),
        }
        let (key, invoice) = (world.key("acme"), last(&world));
        let owed = world.on("acme", |tx, _| preview_corrections(tx, invoice.id)).expect("a preview");
        let credits = world.on("acme", |tx, _| tx.credits().list_open(key)).expect("credits");
        let left: BigDecimal = credits.iter().map(CreditLedger::remaining).sum();
        let found = [&owed.next_invoice, &owed.credit_note, &invoice.amount_due(), &left].map(plain);
        assert_eq!(found, row[2..], "{row:?}");
    }
}

#[test]
fn what_is_issued_anew_settles_what_came_back() {
    const APRIL: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
    for row in table(REISSUED) {
        let world = World::at(APRIL);
        world.customer("acme");
        let calls = component(world.metric("call", None).id, tiers(&[("0", "", "1")]));
        let content = version(vec![fee("30", ChargeTiming::InAdvance)], vec![calls]);
        let plan = world.plan(Some(PlanDuration::Monthly), content);
        let id = world.subscribe(&subscription("acme", plan, APRIL)).expect("subscribed").id;
        world.track_many("acme", "call", datetime!(2024-04-10 00:00 UTC), 10);
        world.advance("acme", datetime!(2024-04-16 00:00 UTC));
        let cancel = |flat_fee_behavior, invoicing_behavior| {
            let command = CancelSubscription {
                customer: world.key("acme"),
                subscriptions: vec![id],
                cancellation: Cancellation { flat_fee_behavior, usage_behavior: UsageBehavior::BillFull },
                invoicing_behavior,
            };
            world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
        };
        match row[0].strip_prefix("2024-04-16 ").unwrap_or(&row[0]) {
            "nothing" => {}
            "cancel" => cancel(None, InvoicingBehavior::InvoiceNow),
            "cancel refund" => cancel(Some(FlatFeeBehavior::Refund), InvoicingBehavior::InvoiceNow),
            "cancel, invoiced next" => cancel(None, InvoicingBehavior::AddToNextInvoice),
            "tax 20" => tax_20(&world),
            "cancel, then tax 20" => {
                cancel(None, InvoicingBehavior::InvoiceNow);
                tax_20(&world);
            }
            other => panic!("{other}"),
        }
        world.advance("acme", datetime!(2024-04-20 00:00 UTC));
        let new = reissue(&world, world.invoices("acme")[0].id);
        let charges = |invoice: &Invoice| -> BigDecimal {
            invoice.lines.iter().filter(|line| line.subscription.is_some()).map(|line| &line.amount).sum()
        };
        let stand = |invoice: &Invoice| invoice.payment_status != PaymentStatus::Voided;
        let all: BigDecimal = world.invoices("acme").iter().filter(|invoice| stand(invoice)).map(charges).sum();
        assert_eq!([plain(&charges(&new)), plain(&all)], row[1..], "{row:?}");
    }
}
