//! Reissued invoices: what was billed is billed again from what is true today, and nothing is forgiven.

use time::OffsetDateTime;
use time::macros::datetime;

use super::{Life, adjusted, every};
use crate::credit_note::Settlement;
use crate::decimal::plain;
use crate::error::{Error, Refusal};
use crate::id::InvoiceId;
use crate::invoice::{Invoice, PaymentStatus};
use crate::period::IntervalUnit::Week;
use crate::plan::ChargeBehavior::Prorate;
use crate::plan::ChargeTiming::{InAdvance, InArrears};
use crate::plan::PriceAdjustmentKind::{Fixed, Percentage, PriceOverride};
use crate::subscription::FlatFeeBehavior::Refund;
use crate::subscription::{InvoicingBehavior, UsageBehavior};
use crate::testing::world::{component, decimal, fee, prepaid_component, tiers, version};
use crate::workflow::{
    CorrectEvents, CreateCreditNote, EventChange, NotePayment, OrganizationPatch, ReversePayment, Share,
    WantedCorrection, correct_events, create_credit_note, note_payment, reissue_invoice, reverse_payment,
    void_credit_note,
};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const SIXTEENTH: OffsetDateTime = datetime!(2024-04-16 00:00 UTC);
const MAY: OffsetDateTime = datetime!(2024-05-01 00:30 UTC);
const JUNE: OffsetDateTime = datetime!(2024-06-01 00:30 UTC);

impl Life {
    fn reissue(&self, id: InvoiceId) -> Result<(Invoice, Invoice), Error> {
        let customer = self.world.key("acme");
        let (voided, new) = self.world.on("acme", |tx, now| reissue_invoice(tx, customer, id, now))?;
        let new = self.world.on("acme", |tx, _| tx.invoices().get(new))?;
        assert_eq!((voided.payment_status, voided.replaced_by), (PaymentStatus::Voided, Some(new.id)));
        assert_eq!(new.replaces, Some(voided.id));
        Ok((voided, new))
    }

    /// The `place`th invoice, from 0.
    fn invoice(&self, place: usize) -> Invoice {
        self.world.invoices("acme").remove(place)
    }

    fn void_events(&self, numbers: std::ops::RangeInclusive<u32>) {
        let wanted = |number| WantedCorrection {
            idempotency_id: format!("event-{number}"),
            change: EventChange::Void,
            attr: String::new(),
        };
        let command = CorrectEvents {
            customer: self.world.key("acme"),
            corrections: numbers.map(wanted).collect(),
            beyond_window: false,
            by: None,
            reason: None,
        };
        self.world.on("acme", |tx, now| correct_events(tx, &command, now)).expect("voided");
    }

    /// What credits left to pay of each invoice that stands, and what credit is left.
    fn due(&self) -> (Vec<String>, String) {
        let stand = |invoice: &Invoice| invoice.payment_status != PaymentStatus::Voided;
        let due = self.world.invoices("acme").into_iter().filter(stand).map(|invoice| plain(&invoice.amount_due()));
        (due.collect(), self.credit())
    }
}

/// A fee of 30 in advance, and calls at 1.
fn fee_and_calls() -> Life {
    let life = Life::monthly(START, |world| {
        let calls = world.metric("call", None).id;
        version(vec![fee("30", InAdvance)], vec![component(calls, tiers(&[("0", "", "1")]))])
    });
    life.world.track_many("acme", "call", START, 10);
    life
}

#[test]
fn it_bills_the_same_again_from_todays_events_and_tax() {
    #[rustfmt::skip]
    let cases = [
        // adjustment,                tax, then, voided, reissued, why
        (None,                        "",   "",   0,     "40",     "nothing has changed"),
        (None,                        "",   "",   4,     "36",     "four of the ten calls never were"),
        (None,                        "20", "",   4,     "43.2",   "with tax"),
        (None,                        "20", "7",  4,     "38.52",  "at the rate of today"),
        (Some((Percentage, "-50")),   "20", "",   4,     "21.6",   "at the price of the plan"),
        (Some((Fixed, "-5")),         "",   "",   4,     "31",     "less the discount of April and of May"),
        (Some((PriceOverride, "33")), "",   "",   4,     "33",     "30 for May, and 3 for April, whatever its calls cost"),
    ];
    for (adjustment, tax, then, voided, reissued, why) in cases {
        let life = Life::monthly(START, |world| {
            let calls = world.metric("call", None).id;
            let version = version(vec![fee("30", InAdvance)], vec![component(calls, tiers(&[("0", "", "1")]))]);
            match adjustment {
                Some((kind, amount)) => adjusted(version, kind, amount),
                None => version,
            }
        });
        life.world.track_many("acme", "call", datetime!(2024-04-04 00:00 UTC), 10);
        if !tax.is_empty() {
            life.tax(tax);
        }
        life.at(MAY);
        let before = life.invoice(1);
        if voided > 0 {
            life.void_events(1..=voided);
        }
        if !then.is_empty() {
            life.tax(then);
        }
        let (_, new) = life.reissue(before.id).expect("reissued");
        assert_eq!(plain(&new.amount), reissued, "{why}");
        assert_eq!(new.lines.len(), before.lines.len(), "{why}");
        assert!(new.lines.iter().all(|line| !line.name.contains("Late")), "{why}: it is no late usage");
        life.at(JUNE);
        let later: Vec<_> = life.world.invoices("acme").into_iter().skip(3).collect();
        let of_april = later.iter().flat_map(|invoice| &invoice.lines).filter(|line| line.period.start() == START);
        assert_eq!(of_april.count(), 0, "{why}: April is settled");
    }
}

#[test]
fn what_later_invoices_gave_back_is_settled_in_it() {
    let mut life = fee_and_calls();
    let first = life.invoice(0);
    life.at(SIXTEENTH);
    let plan = life.plan(version(vec![fee("60", InAdvance)], Vec::new()));
    life.switch(plan);
    assert_eq!(life.invoices(), ["30", "25"], "30 for the rest of the month and ten calls, less 15 of the old fee");
    let (_, new) = life.reissue(first.id).expect("a plain void answers 409");
    assert_eq!(plain(&new.amount), "30", "15 for the half month, and 15 that the second invoice gave back");
    assert_eq!((life.paid().as_str(), life.credit().as_str()), ("55", "0"));
    let second = life.invoice(1).number;
    assert_eq!(life.void(new.id).map(drop), Err(Refusal::LinesTakenBack(second).into()), "15 of it came back already");

    let life = fee_and_calls();
    let first = life.invoice(0);
    life.at(SIXTEENTH);
    life.cancel(Some(Refund));
    assert_eq!((life.invoices(), life.credit()), (vec!["30".into(), "-20".into()], "20".into()));
    let (_, new) = life.reissue(first.id).expect("reissued");
    assert_eq!(
        plain(&new.amount),
        "10",
        "30 that came back as 30 less 10 calls, of which 20 are a credit that pays for it"
    );
    assert_eq!((life.paid().as_str(), life.credit().as_str()), ("10", "0"));
}

#[test]
fn what_came_back_of_it_keeps_the_rate_at_which_it_did() {
    #[rustfmt::skip]
    let cases = [
        // billed, came back, today, all,  why
        ("20",     "20",      "20",  "18", "half a month"),
        ("20",     "20",      "0",   "18", "else 3 came back that nobody was taxed"),
        ("0",      "0",       "20",  "15", "else the half that came back is taxed too"),
        ("20",     "7",       "0",   "18", "as it was billed, whatever the rate was meanwhile"),
    ];
    for (billed, back, today, all, why) in cases {
        let life = Life::monthly(START, |world| {
            world.set(&OrganizationPatch { tax_rate: Some(Some(decimal(billed))), ..OrganizationPatch::default() });
            version(vec![fee("30", InAdvance)], Vec::new())
        });
        let first = life.invoice(0);
        life.at(SIXTEENTH);
        life.tax(back);
        life.cancel(None);
        life.tax(today);
        let (_, new) = life.reissue(first.id).expect("reissued");
        assert_eq!(life.paid(), all, "{why}");
        life.reissue(new.id).expect("once more");
        assert_eq!(life.paid(), all, "{why}");
    }
}

#[test]
fn a_change_that_waits_for_the_next_invoice_is_on_the_reissue() {
    let life = fee_and_calls();
    let first = life.invoice(0);
    life.at(SIXTEENTH);
    life.cancel_by(None, UsageBehavior::BillFull, InvoicingBehavior::AddToNextInvoice);
    let (_, new) = life.reissue(first.id).expect("reissued");
    assert_eq!(plain(&new.amount), "15", "half of the month");
    life.at(JUNE);
    assert_eq!((life.paid().as_str(), life.credit().as_str()), ("25", "0"), "and the calls");
}

#[test]
fn usage_that_was_dropped_or_handed_on_stays_so() {
    let weekly = || {
        Life::monthly(START, |world| {
            let mut calls = component(world.metric("call", None).id, tiers(&[("0", "", "1")]));
            calls.invoicing_interval = every(1, Week);
            version(Vec::new(), vec![calls])
        })
    };
    let life = weekly();
    life.world.track_many("acme", "call", START, 10);
    life.at(datetime!(2024-04-08 00:30 UTC));
    let first = life.invoice(0);
    life.at(SIXTEENTH);
    life.world.track_many("acme", "call", SIXTEENTH - time::Duration::HOUR, 5);
    life.cancel_by(None, UsageBehavior::BillNone, InvoicingBehavior::InvoiceNow);
    let (_, new) = life.reissue(first.id).expect("reissued");
    assert_eq!(plain(&new.amount), "10", "what was billed stays, and what was dropped is not billed");
    life.at(JUNE);
    assert_eq!(life.paid(), "10");

    let mut life = weekly();
    life.world.track_many("acme", "call", START, 10);
    life.at(datetime!(2024-04-08 00:30 UTC));
    let first = life.invoice(0);
    life.at(SIXTEENTH);
    let metric = life.world.subscription("acme", life.id);
    let version_of_old = life.world.on("acme", |tx, _| tx.plans().get_version(metric.version)).expect("a version");
    let calls = version_of_old.components[0].metric;
    let plan = life.plan(version(Vec::new(), vec![component(calls, tiers(&[("0", "", "2")]))]));
    life.switch(plan);
    life.reissue(first.id).expect("reissued");
    life.at(JUNE);
    assert_eq!(life.paid(), "20", "all of the usage at the new plan's price");
}

#[test]
fn a_week_that_is_reissued_is_billed_as_far_as_it_was() {
    let life = Life::monthly(START, |world| {
        let mut calls = component(world.metric("call", None).id, tiers(&[("0", "", "1")]));
        calls.invoicing_interval = every(1, Week);
        version(vec![fee("7", InArrears)], vec![calls])
    });
    life.world.track_many("acme", "call", START, 10);
    life.at(datetime!(2024-04-08 00:30 UTC));
    life.world.track_many("acme", "call", datetime!(2024-04-09 00:00 UTC), 5);
    life.at(datetime!(2024-04-09 12:00 UTC));
    life.void_events(1..=4);
    let (_, new) = life.reissue(life.invoice(0).id).expect("reissued");
    assert_eq!(plain(&new.amount), "6", "without what is not in arrears yet");
    life.at(JUNE);
    assert_eq!(life.paid(), "25", "eleven calls and two fees");
}

#[test]
fn prepaid_units_and_what_credits_paid_go_over() {
    let life = Life::monthly(START, |world| {
        let seats = world.metric("seat", None).id;
        version(Vec::new(), vec![prepaid_component(seats, tiers(&[("0", "", "10")]), "10", Prorate)])
    });
    let first = life.invoice(0);
    life.at(SIXTEENTH);
    life.cancel(None);
    assert_eq!(life.invoices(), ["100", "-50"], "half of the month, as a credit");
    let second = life.invoice(1);
    let (_, new) = life.reissue(second.id).expect("of nothing, for it granted a credit");
    assert_eq!((plain(&new.amount), life.credit().as_str()), ("0".to_owned(), "50"), "the credit stands");
    let (_, new) = life.reissue(first.id).expect("reissued");
    assert_eq!(plain(&new.amount), "50", "50 for the time used and 50 that came back, of which the credit pays");
    assert_eq!((life.paid().as_str(), life.credit().as_str()), ("50", "0"));
    let (_, again) = life.reissue(new.id).expect("a reissue can be reissued");
    assert_eq!(plain(&again.amount), "50");
    assert_eq!((life.paid().as_str(), life.credit().as_str()), ("50", "0"));
}

#[test]
fn payments_and_credit_notes_are_taken_back_first() {
    let life = fee_and_calls();
    let first = life.invoice(0);
    let (customer, invoice) = (life.world.key("acme"), first.id);
    let pay = NotePayment { customer, invoice, amount: decimal("30"), at: None, method: None, reference: None };
    let (_, paid) = life.world.on("acme", |tx, now| note_payment(tx, &pay, now)).expect("paid");
    assert_eq!(life.reissue(invoice).map(drop), Err(Refusal::InvoiceHasPayments.into()));
    let reverse = ReversePayment { customer, invoice, payment: paid.id, at: None, reason: None };
    life.world.on("acme", |tx, now| reverse_payment(tx, &reverse, now)).expect("reversed");
    let note = CreateCreditNote {
        customer,
        invoice,
        lines: Vec::new(),
        share: Some(Share::Amount(decimal("5"))),
        corrections: false,
        reason: "It was down".to_owned(),
        settlement: Settlement::Balance,
        reference: None,
    };
    let (_, note) = life.world.on("acme", |tx, now| create_credit_note(tx, &note, now)).expect("credited");
    assert_eq!(life.reissue(invoice).map(drop), Err(Refusal::CreditNoteStands(note.number.clone()).into()));
    life.world.on("acme", |tx, now| void_credit_note(tx, customer, note.id, now)).expect("voided");
    let (_, new) = life.reissue(invoice).expect("reissued");
    assert_eq!(life.due(), (vec!["30".to_owned()], "0".to_owned()));
    assert_eq!(life.reissue(invoice).map(drop), Err(Refusal::InvoiceNotUnpaid.into()), "once");
    life.void(new.id).expect("what was issued anew can be voided, which forgives it");
    life.at(SIXTEENTH);
    life.cancel(Some(Refund));
    assert_eq!((life.paid().as_str(), life.credit().as_str()), ("10", "0"), "the calls");
}
