//! The law of credit notes: whatever is credited, voided, renewed, late or cancelled, each charge comes to its price less what notes
//! took, and never to less than nothing.

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Signed, Zero};
use billing_domain::charge::ChargeRef;
use billing_domain::credit_note::{CreditNote, Settlement};
use billing_domain::error::Error;
use billing_domain::id::BillingRecordId;
use billing_domain::invoice::{Invoice, PaymentStatus};
use billing_domain::period::PlanDuration;
use billing_domain::plan::ChargeTiming;
use billing_domain::statement::{Statement, StatementBalance};
use billing_domain::store::{CreditNoteFilter, PageRequest, Transaction};
use billing_domain::subscription::{Cancellation, FlatFeeBehavior, InvoicingBehavior, UsageBehavior};
use billing_domain::testing::world::{World, component, fee, subscription, tiers, version};
use billing_domain::workflow::{
    CancelSubscription, CreateCreditNote, CreditLine, NotePayment, ReversePayment, Share, cancel_subscription,
    create_credit_note, note_payment, reverse_payment, void_credit_note,
};
use billing_domain::{FieldCode, Refusal};
use proptest::prelude::*;
use time::{Duration, OffsetDateTime};

use crate::fewer_laws;
use crate::life::START;

/// What somebody does, to which of the invoices, lines, notes or payments: counted around.
#[derive(Clone, Debug)]
enum Act {
    /// Days.
    Wait(i64),
    /// An event of so many days ago.
    Track(i64),
    /// So many cents of a line, or of the whole invoice.
    Credit(usize, Option<usize>, i64),
    /// All that is left.
    CreditAll(usize),
    Refund(usize, i64),
    VoidNote(usize),
    Pay(usize, i64),
    Reverse(usize),
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (5..40_i64).prop_map(Act::Wait),
        3 => (0..20_i64).prop_map(Act::Track),
        4 => (0..6_usize, prop::option::of(0..3_usize), 1..2_000_i64).prop_map(|(i, l, c)| Act::Credit(i, l, c)),
        1 => (0..6_usize).prop_map(Act::CreditAll),
        1 => (0..6_usize, 1..2_000_i64).prop_map(|(invoice, cents)| Act::Refund(invoice, cents)),
        3 => (0..8_usize).prop_map(Act::VoidNote),
        2 => (0..6_usize, 1..5_000_i64).prop_map(|(invoice, cents)| Act::Pay(invoice, cents)),
        1 => (0..6_usize).prop_map(Act::Reverse),
    ]
}

fn notes(world: &World) -> Vec<CreditNote> {
    let filter = CreditNoteFilter { customer: Some(world.key("acme")), invoice: None };
    let list = |tx: &mut dyn Transaction, _| tx.invoices().list_credit_notes(&filter, &PageRequest::first());
    world.on("acme", list).expect("credit notes").items
}

fn credit(
    world: &World,
    invoice: &Invoice,
    line: Option<usize>,
    share: Option<Share>,
    settlement: Settlement,
) -> Result<(), Error> {
    let named = line.and_then(|line| invoice.named_lines().nth(line % invoice.lines.len()));
    let (lines, share) = match named {
        Some((line, _)) => (vec![CreditLine { line, share }], None),
        None => (Vec::new(), share),
    };
    let (customer, reason) = (world.key("acme"), "law".to_owned());
    let command = CreateCreditNote {
        customer,
        invoice: invoice.id,
        lines,
        share,
        corrections: false,
        reason,
        settlement,
        reference: None,
    };
    world.on("acme", |tx, now| create_credit_note(tx, &command, now)).map(drop)
}

fn act(world: &World, act: &Act, events: &mut Vec<OffsetDateTime>) {
    let (customer, invoices) = (world.key("acme"), world.invoices("acme"));
    let chosen = |place: usize| &invoices[place % invoices.len()];
    let cents = |cents: i64| BigDecimal::new(cents.into(), 2);
    let now = world.on("acme", |_, now| Ok(now)).expect("now");
    let done = match act {
        Act::Wait(days) => {
            world.advance("acme", now + Duration::days(*days));
            Ok(())
        }
        Act::Track(days) => {
            let at = (now - Duration::days(*days)).max(START);
            world.track_many("acme", "call", at, 1);
            events.push(at);
            Ok(())
        }
        Act::Credit(place, line, amount) => {
            let share = Some(Share::Amount(cents(*amount)));
            credit(world, chosen(*place), *line, share, Settlement::Balance)
        }
        Act::CreditAll(place) => credit(world, chosen(*place), None, None, Settlement::Balance),
        Act::Refund(place, amount) => {
            credit(world, chosen(*place), None, Some(Share::Amount(cents(*amount))), Settlement::Outside)
        }
        Act::VoidNote(place) => {
            let all = notes(world);
            let Some(note) = all.get(place % all.len().max(1)) else { return };
            world.on("acme", |tx, now| void_credit_note(tx, customer, note.id, now)).map(drop)
        }
        Act::Pay(place, amount) => {
            let (invoice, amount) = (chosen(*place).id, cents(*amount));
            let command = NotePayment { customer, invoice, amount, at: None, method: None, reference: None };
            world.on("acme", |tx, now| note_payment(tx, &command, now)).map(drop)
        }
        Act::Reverse(place) => {
            let listed = world.on("acme", |tx, _| tx.invoices().list_payments(customer, None)).expect("payments");
            let Some(payment) = listed.get(place % listed.len().max(1)) else { return };
            let (invoice, payment) = (payment.invoice, payment.id);
            let command = ReversePayment { customer, invoice, payment, at: None, reason: None };
            world.on("acme", |tx, now| reverse_payment(tx, &command, now)).map(drop)
        }
    };
    match done {
        Ok(()) | Err(Error::NotFound(_)) => {}
        Err(Error::Refused(
            Refusal::NothingToCredit
            | Refusal::RefundExceedsPayments
            | Refusal::CreditNoteVoided
            | Refusal::CreditDrawn
            | Refusal::PaymentReversed,
        )) => {}
        Err(Error::Fields(errors)) if errors.0.iter().all(|error| error.code == FieldCode::MaxValue) => {}
        Err(error) => panic!("{act:?}: {error:?}"),
    }
}

/// The statement says what invoices say is due less the credit that is left, and an invoice is paid when nothing is due.
pub fn books_balance(world: &World) {
    let (customer, invoices) = (world.key("acme"), world.invoices("acme"));
    let payments = world.on("acme", |tx, _| tx.invoices().list_payments(customer, None)).expect("payments");
    let credits = world.on("acme", |tx, _| tx.credits().list(customer)).expect("credits");
    let summaries: Vec<_> = invoices.iter().map(Invoice::summary).collect();
    let statement = Statement::new(&summaries, &credits, &payments, (None, None));
    let due: BigDecimal = invoices.iter().map(Invoice::amount_due).sum();
    let credit: BigDecimal = credits.iter().map(billing_domain::credit::CreditLedger::remaining).sum();
    assert_eq!(statement.closing["USD"], StatementBalance { due, credit });
    for invoice in &invoices {
        let is_paid = invoice.payment_status == PaymentStatus::Paid;
        let is_voided = invoice.payment_status == PaymentStatus::Voided;
        assert_eq!(is_paid || is_voided, invoice.amount_due().is_zero(), "{}", invoice.number);
        assert!(!invoice.amount_due().is_negative(), "{}", invoice.number);
    }
}

/// Each charge comes to its price less what notes took, or to nothing where they took more.
fn charges_come_to_their_price(world: &World, events: &[OffsetDateTime], refunded: Option<OffsetDateTime>) {
    let mut billed: BTreeMap<BillingRecordId, BigDecimal> = BTreeMap::new();
    let mut taken: BTreeMap<BillingRecordId, BigDecimal> = BTreeMap::new();
    let notes = notes(world);
    for (id, line) in world.invoices("acme").iter().flat_map(Invoice::named_lines) {
        let Some(record) = line.record else { continue };
        *billed.entry(record).or_default() += &line.amount;
        let credited = notes.iter().filter(|note| note.stands()).flat_map(|note| &note.lines);
        let credited: BigDecimal = credited.filter(|part| part.line == id).map(|part| &part.part.amount).sum();
        assert!(credited <= line.amount.clone().max(0.into()), "{id}: never more than the line");
        *taken.entry(record).or_default() += credited;
    }
    let key = world.key("acme");
    for held in world.subscriptions("acme") {
        let is_refunded = refunded.is_some_and(|at| held.period.end() == at);
        for record in world.on("acme", |tx, _| tx.billing_records().list(key, held.id)).expect("records") {
            let Some(billed) = billed.get(&record.id) else { continue };
            let price = match record.charge {
                ChargeRef::Recurring(_) if is_refunded => 0,
                ChargeRef::Recurring(_) => 30,
                ChargeRef::Component(_) => events.iter().filter(|at| record.period.contains(**at)).count(),
            };
            let (price, taken) = (BigDecimal::from(price as u64), taken[&record.id].clone());
            assert_eq!(billed - &taken, (&price - &taken).max(0.into()), "{record:?}: {price} less {taken}");
        }
    }
}

proptest! {
    #![proptest_config(fewer_laws())]

    #[test]
    fn charges_come_to_their_price_less_what_notes_took(
        acts in prop::collection::vec(any_act(), 1..25),
        is_cancelled: bool,
        after in prop::collection::vec(any_act(), 0..8),
    ) {
        let world = World::at(START);
        world.customer("acme");
        let metric = world.metric("call", None).id;
        let content = version(vec![fee("30", ChargeTiming::InAdvance)], vec![component(metric, tiers(&[("0", "", "1")]))]);
        let plan = world.plan(Some(PlanDuration::Monthly), content);
        world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
        let mut events = Vec::new();
        for each in &acts {
            act(&world, each, &mut events);
            books_balance(&world);
        }
        let refunded = is_cancelled.then(|| {
            let now = world.on("acme", |_, now| Ok(now)).expect("now") + Duration::hours(1);
            world.advance("acme", now);
            let command = CancelSubscription {
                customer: world.key("acme"),
                subscriptions: vec![world.subscriptions("acme").pop().expect("a subscription").id],
                cancellation: Cancellation {
                    flat_fee_behavior: Some(FlatFeeBehavior::Refund),
                    usage_behavior: UsageBehavior::BillFull,
                },
                invoicing_behavior: InvoicingBehavior::InvoiceNow,
            };
            world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
            now
        });
        for each in &after {
            act(&world, each, &mut events);
            books_balance(&world);
        }
        let now = world.on("acme", |_, now| Ok(now)).expect("now");
        world.advance("acme", now + Duration::days(80));
        books_balance(&world);
        // What was tracked later than the last invoice of its time is seen by then.
        let ends = world.on("acme", |_, now| Ok(now)).expect("now");
        let events: Vec<_> = events.into_iter().filter(|at| *at < ends).collect();
        charges_come_to_their_price(&world, &events, refunded);
    }
}
