//! Credit notes: what they take back, what becomes of it, and what they meet.

use time::OffsetDateTime;
use time::macros::datetime;

use crate::credit_note::{CreditNote, LinePart, Settlement};
use crate::decimal::plain;
use crate::error::{Error, FieldCode, Refusal};
use crate::id::{CreditNoteId, InvoiceId, LineId};
use crate::invoice::{Invoice, LineItem, PaymentStatus, Trace};
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::subscription::{Cancellation, FlatFeeBehavior, InvoicingBehavior, UsageBehavior};
use crate::testing::world::{World, component, decimal, fee, subscription, tiers, version};
use crate::workflow::{
    CancelSubscription, CreateCreditNote, CreditLine, NotePayment, OrganizationPatch, Share, cancel_subscription,
    create_credit_note, note_payment, void_credit_note, void_invoice,
};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);

/// A customer with a monthly fee of 30 in advance and 20 percent of tax, and its first invoice, of 36.
fn world() -> (World, Invoice) {
    let world = World::at(START);
    world.set(&OrganizationPatch {
        tax_rate: Some(Some(decimal("20"))),
        payment_grace_period_days: Some(Some(10)),
        ..OrganizationPatch::default()
    });
    world.customer("acme");
    let metric = world.metric("call", None);
    let content = version(vec![fee("30", InAdvance)], vec![component(metric.id, tiers(&[("0", "", "1")]))]);
    let plan = world.plan(Some(PlanDuration::Monthly), content);
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    let invoice = world.invoices("acme").pop().expect("an invoice");
    (world, invoice)
}

fn command(world: &World, invoice: InvoiceId, share: Option<Share>) -> CreateCreditNote {
    CreateCreditNote {
        customer: world.key("acme"),
        invoice,
        lines: Vec::new(),
        share,
        corrections: false,
        reason: "It was down".to_owned(),
        settlement: Settlement::Balance,
        reference: None,
    }
}

fn credit(world: &World, command: &CreateCreditNote) -> Result<(Invoice, CreditNote), Error> {
    world.on("acme", |tx, now| create_credit_note(tx, command, now))
}

fn credit_some(world: &World, invoice: InvoiceId, amount: &str) -> CreditNote {
    credit(world, &command(world, invoice, Some(Share::Amount(decimal(amount))))).expect("a credit note").1
}

fn void_note(world: &World, id: CreditNoteId) -> Result<CreditNote, Error> {
    let key = world.key("acme");
    world.on("acme", |tx, now| void_credit_note(tx, key, id, now))
}

fn void(world: &World, id: InvoiceId) -> Result<Invoice, Error> {
    let key = world.key("acme");
    world.on("acme", |tx, now| void_invoice(tx, key, id, now))
}

fn pay(world: &World, invoice: InvoiceId, amount: &str) {
    let (customer, amount) = (world.key("acme"), decimal(amount));
    let command = NotePayment { customer, invoice, amount, at: None, method: None, reference: None };
    world.on("acme", |tx, now| note_payment(tx, &command, now)).expect("noted");
}

fn cancel(world: &World, flat_fee_behavior: FlatFeeBehavior) {
    let command = CancelSubscription {
        customer: world.key("acme"),
        subscriptions: vec![world.subscriptions("acme").pop().expect("a subscription").id],
        cancellation: Cancellation {
            flat_fee_behavior: Some(flat_fee_behavior),
            usage_behavior: UsageBehavior::BillFull,
        },
        invoicing_behavior: InvoicingBehavior::InvoiceNow,
    };
    world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
}

/// Due, where its payment stands, and what credit the customer has.
fn state(world: &World, id: InvoiceId) -> (String, PaymentStatus, String) {
    let key = world.key("acme");
    let stored = world.on("acme", |tx, _| tx.invoices().get(id)).expect("an invoice");
    let credits = world.on("acme", |tx, _| tx.credits().list_open(key)).expect("credits");
    let left = credits.iter().map(crate::credit::CreditLedger::remaining).sum();
    (plain(&stored.amount_due()), stored.payment_status, plain(&left))
}

fn part(part: &LinePart) -> [String; 3] {
    [&part.amount, &part.base, &part.tax].map(plain)
}

#[test]
fn what_is_not_due_any_more_becomes_a_credit() {
    #[rustfmt::skip]
    let cases = [
        // paid, credited, due,  status,                credit, why
        ("0",    "6",      "30", PaymentStatus::Unpaid, "0",  "it reduces what is due"),
        ("0",    "36",     "0",  PaymentStatus::Paid,   "0",  "nothing is left to pay"),
        ("10",   "30",     "0",  PaymentStatus::Paid,   "4",  "26 were due, and 4 were paid already"),
        ("36",   "12",     "0",  PaymentStatus::Paid,   "12", "all of it was paid"),
        ("40",   "12",     "0",  PaymentStatus::Paid,   "16", "beside what was overpaid"),
    ];
    for (paid, credited, due, status, left, why) in cases {
        let (world, invoice) = world();
        if paid != "0" {
            pay(&world, invoice.id, paid);
        }
        let before = state(&world, invoice.id);
        let note = credit_some(&world, invoice.id, credited);
        assert_eq!(state(&world, invoice.id), (due.to_owned(), status, left.to_owned()), "{why}");
        assert_eq!(note.number, "CN-240401-000001", "{why}");
        assert_eq!(note.lines.len(), 1);
        void_note(&world, note.id).expect("voided");
        assert_eq!(state(&world, invoice.id), before, "{why}: and a void undoes it");
        assert_eq!(void_note(&world, note.id), Err(Refusal::CreditNoteVoided.into()));
    }
}

#[test]
fn notes_on_a_line_add_up_to_it_and_never_to_more() {
    let (world, invoice) = world();
    let line = LineId::new(invoice.id, 1);
    let of_line =
        |share| CreateCreditNote { lines: vec![CreditLine { line, share }], ..command(&world, invoice.id, None) };
    let first = credit(&world, &of_line(Some(Share::Percent(decimal("33.333"))))).expect("a third").1;
    assert_eq!(part(&first.lines[0].part), ["12", "10", "2"]);
    let second = credit(&world, &of_line(Some(Share::Amount(decimal("0.01"))))).expect("a cent").1;
    assert_eq!(part(&second.lines[0].part), ["0.01", "0.01", "0"]);
    let Err(Error::Fields(errors)) = credit(&world, &of_line(Some(Share::Amount(decimal("24"))))) else {
        panic!("24 is a cent too much")
    };
    assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("lines.0.amount", FieldCode::MaxValue));
    let rest = credit(&world, &of_line(None)).expect("the rest").1;
    assert_eq!(part(&rest.lines[0].part), ["23.99", "19.99", "4"]);
    assert_eq!(credit(&world, &command(&world, invoice.id, None)), Err(Refusal::NothingToCredit.into()));
    void_note(&world, second.id).expect("voided");
    let again = credit(&world, &command(&world, invoice.id, None)).expect("what the void left").1;
    assert_eq!((part(&again.lines[0].part), again.number.as_str()), (part(&second.lines[0].part), "CN-240401-000004"));
}

#[test]
fn what_comes_back_by_itself_is_what_notes_left() {
    #[rustfmt::skip]
    let cases = [
        // credited, how it is cancelled at the half,     came back, why
        ("12",       FlatFeeBehavior::Refund,             "24",      "the fee comes back but for what the note took"),
        ("12",       FlatFeeBehavior::ChargeProrated,     "18",      "half of the fee, beside the note"),
        ("30",       FlatFeeBehavior::ChargeProrated,     "6",       "half would be more than the note left"),
        ("36",       FlatFeeBehavior::Refund,             "0",       "nothing is left"),
        ("12",       FlatFeeBehavior::ChargeFull,         "0",       "nothing comes back"),
    ];
    for (credited, behavior, back, why) in cases {
        let (world, invoice) = world();
        pay(&world, invoice.id, "36");
        let note = credit_some(&world, invoice.id, credited);
        world.advance("acme", datetime!(2024-04-16 00:00 UTC));
        cancel(&world, behavior);
        let left = plain(&(decimal(credited) + decimal(back)));
        assert_eq!(state(&world, invoice.id).2, left, "{why}");

        // What the note held back comes with the next invoice, once the note is void.
        void_note(&world, note.id).expect("voided");
        world.advance("acme", datetime!(2024-05-02 00:00 UTC));
        let whole = match behavior {
            FlatFeeBehavior::Refund => "36",
            FlatFeeBehavior::ChargeProrated => "18",
            FlatFeeBehavior::ChargeFull => "0",
        };
        assert_eq!(state(&world, invoice.id).2, whole, "{why}, and without the note");
    }
}

#[test]
fn a_note_takes_no_more_than_give_backs_left() {
    let (world, invoice) = world();
    pay(&world, invoice.id, "36");
    world.advance("acme", datetime!(2024-04-16 00:00 UTC));
    cancel(&world, FlatFeeBehavior::ChargeProrated);
    let Err(Error::Fields(errors)) =
        credit(&world, &command(&world, invoice.id, Some(Share::Amount(decimal("18.01")))))
    else {
        panic!("half of it came back")
    };
    assert!(errors.0[0].detail.starts_with("18 is left of the invoice"), "{errors}");
    let note = credit(&world, &command(&world, invoice.id, None)).expect("the rest").1;
    assert_eq!(plain(&note.amount), "18");
    assert_eq!(state(&world, invoice.id).2, "36", "all of it came back, once");
}

#[test]
fn usage_that_comes_late_and_notes_meet_on_one_record() {
    let (world, _) = world();
    world.track_many("acme", "call", datetime!(2024-04-10 00:00 UTC), 10);
    world.advance("acme", datetime!(2024-05-01 01:00 UTC));
    let second = world.invoices("acme").pop().expect("the second");
    let is_usage = |line: &LineItem| matches!(line.trace, Trace::UsageCharge { .. });
    let usage = second.named_lines().find(|(_, line)| is_usage(line)).expect("usage").0;
    let line =
        |share| CreateCreditNote { lines: vec![CreditLine { line: usage, share }], ..command(&world, second.id, None) };
    credit(&world, &line(Some(Share::Percent(decimal("50"))))).expect("half");
    world.track_many("acme", "call", datetime!(2024-04-11 00:00 UTC), 3);
    world.advance("acme", datetime!(2024-06-01 01:00 UTC));
    let later = world.invoices("acme");
    let mut lines = later.iter().flat_map(|invoice| &invoice.lines);
    let late = lines.find(|line| line.name.ends_with("Late Usage")).expect("late usage");
    assert_eq!(
        plain(&late.amount),
        "3.6",
        "what the note took is not billed again, and what came late is billed whole"
    );
    let rest = credit(&world, &line(None)).expect("the rest").1;
    assert_eq!(plain(&rest.amount), "6");
}

#[test]
fn a_refund_outside_is_of_money_that_came() {
    let (world, invoice) = world();
    let outside = |amount: &str| CreateCreditNote {
        settlement: Settlement::Outside,
        reference: Some("re_1".to_owned()),
        ..command(&world, invoice.id, Some(Share::Amount(decimal(amount))))
    };
    assert_eq!(credit(&world, &outside("1")), Err(Refusal::RefundExceedsPayments.into()), "nothing came");
    pay(&world, invoice.id, "20");
    assert_eq!(credit(&world, &outside("20.01")), Err(Refusal::RefundExceedsPayments.into()), "20 came");
    let (_, note) = credit(&world, &outside("15")).expect("refunded");
    assert_eq!(state(&world, invoice.id), ("16".to_owned(), PaymentStatus::Unpaid, "0".to_owned()));
    assert_eq!(credit(&world, &outside("6")), Err(Refusal::RefundExceedsPayments.into()), "5 of it are left");
    void_note(&world, note.id).expect("the refund failed");
    credit(&world, &outside("20")).expect("all that came");
}

#[test]
fn a_note_is_voided_before_its_invoice_and_its_credit_undrawn() {
    let (world, invoice) = world();
    let note = credit_some(&world, invoice.id, "6");
    assert_eq!(void(&world, invoice.id), Err(Refusal::CreditNoteStands(note.number.clone()).into()));
    void_note(&world, note.id).expect("voided");
    void(&world, invoice.id).expect("voided");
    assert_eq!(credit(&world, &command(&world, invoice.id, None)), Err(Refusal::InvoiceVoided.into()));

    let (world, invoice) = self::world();
    pay(&world, invoice.id, "36");
    let note = credit_some(&world, invoice.id, "6");
    world.advance("acme", datetime!(2024-05-01 01:00 UTC));
    assert_eq!(void_note(&world, note.id), Err(Refusal::CreditDrawn.into()), "May was paid with it");
    void(&world, world.invoices("acme").pop().expect("May").id).expect("voided");
    void_note(&world, note.id).expect("it came back");
}

#[test]
fn an_invoice_that_is_due_again_falls_due_again() {
    let (world, invoice) = world();
    let note = credit_some(&world, invoice.id, "36");
    world.advance("acme", datetime!(2024-06-10 00:00 UTC));
    let noted = |world: &World| world.on("acme", |tx, _| tx.invoices().get(invoice.id)).expect("it").amount_past_due;
    assert_eq!(noted(&world), None, "nothing was due");
    void_note(&world, note.id).expect("voided");
    assert_eq!(noted(&world), Some(decimal("36")));
}
