//! What an invoice owes the truth, and credit notes that settle it at once.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::credit_note::{CreditNote, Settlement};
use crate::decimal::plain;
use crate::error::{Error, FieldCode, Refusal};
use crate::id::InvoiceId;
use crate::invoice::{Invoice, Trace};
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::{PriceAdjustment, PriceAdjustmentKind};
use crate::testing::world::{World, component, decimal, subscription, tiers, version};
use crate::workflow::{
    CorrectEvents, CorrectionsPreview, CreateCreditNote, EventChange, NewComponent, NewPlanVersion, OrganizationPatch,
    Outlook, Share, WantedCorrection, correct_events, create_credit_note, preview_corrections, void_credit_note,
};

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);
const INSIDE: OffsetDateTime = datetime!(2024-01-04 00:00 UTC);
const BILLED: OffsetDateTime = datetime!(2024-02-01 00:30 UTC);
const NEXT: OffsetDateTime = datetime!(2024-03-01 00:30 UTC);

/// A customer with so many calls on 4 January, at 1 each in a monthly plan.
fn with_calls(count: u32, tax: &str, change: impl FnOnce(NewComponent) -> NewPlanVersion) -> World {
    let world = World::at(START);
    if !tax.is_empty() {
        world.set(&OrganizationPatch { tax_rate: Some(Some(decimal(tax))), ..OrganizationPatch::default() });
    }
    let calls = world.metric("call", None).id;
    let plan = world.plan(Some(PlanDuration::Monthly), change(component(calls, tiers(&[("0", "", "1")]))));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    world.track_many("acme", "call", INSIDE, count);
    world
}

fn plain_version(component: NewComponent) -> NewPlanVersion {
    version(Vec::new(), vec![component])
}

fn void_events(world: &World, numbers: std::ops::RangeInclusive<u32>) {
    let wanted = |number| WantedCorrection {
        idempotency_id: format!("event-{number}"),
        change: EventChange::Void,
        attr: String::new(),
    };
    let command = CorrectEvents {
        customer: world.key("acme"),
        corrections: numbers.map(wanted).collect(),
        beyond_window: false,
        by: None,
        reason: None,
    };
    world.on("acme", |tx, now| correct_events(tx, &command, now)).expect("voided");
}

fn preview(world: &World, invoice: InvoiceId) -> CorrectionsPreview {
    world.on("acme", |tx, _| preview_corrections(tx, invoice)).expect("a preview")
}

/// By itself with the next invoice, and by a credit note.
fn owed(world: &World, invoice: InvoiceId) -> [String; 2] {
    let preview = preview(world, invoice);
    [&preview.next_invoice, &preview.credit_note].map(plain)
}

fn command(world: &World, invoice: InvoiceId) -> CreateCreditNote {
    CreateCreditNote {
        customer: world.key("acme"),
        invoice,
        lines: Vec::new(),
        share: None,
        corrections: true,
        reason: "Calls that never were".to_owned(),
        settlement: Settlement::Balance,
        reference: None,
    }
}

fn credit(world: &World, command: &CreateCreditNote) -> Result<CreditNote, Error> {
    world.on("acme", |tx, now| create_credit_note(tx, command, now)).map(|(_, note)| note)
}

/// The usage lines of the invoices behind the first, of January.
fn late_lines(world: &World) -> Vec<String> {
    let invoices = world.invoices("acme");
    let lines = invoices.iter().skip(1).flat_map(|invoice| &invoice.lines);
    let late = lines.filter(|line| matches!(line.trace, Trace::UsageCharge { .. }) && line.period.start() == START);
    late.map(|line| plain(&line.amount)).collect()
}

fn billed(world: &World) -> Invoice {
    world.advance("acme", BILLED);
    world.invoices("acme").pop().expect("the invoice of January")
}

#[test]
fn a_note_gives_back_at_once_what_the_next_invoice_would() {
    let adjusted = |kind, amount: &str| Some((kind, amount.to_owned()));
    use PriceAdjustmentKind::{Fixed, Percentage, PriceOverride};
    #[rustfmt::skip]
    let cases = [
        // tax, adjustment,                    voided, waived before, preview,               why
        ("",    None,                          3,      "",            ["-3", "3"],           "three calls of ten never were"),
        ("20",  None,                          3,      "",            ["-3.6", "3.6"],       "with their tax"),
        ("20",  None,                          10,     "",            ["-12", "12"],         "all of it"),
        ("20",  None,                          10,     "9",           ["-3", "3"],           "at most what a note left"),
        ("",    adjusted(Percentage, "-50"),   4,      "",            ["-2", "2"],           "at the price that they had"),
        ("20",  adjusted(Fixed, "-1"),         3,      "",            ["-3.6", "3.6"],       "the discount stays"),
        ("20",  adjusted(PriceOverride, "8"),  3,      "",            ["0", "0"],            "calls have no price of their own"),
        ("7.7", None,                          1,      "",            ["-1.08", "1.08"],     "7.7 percent of 9 is 0.693"),
    ];
    for (tax, adjustment, voided, waived, expected, why) in cases {
        let world = with_calls(10, tax, |component| NewPlanVersion {
            price_adjustment: adjustment.map(|(kind, amount)| PriceAdjustment {
                name: "deal".to_owned(),
                description: None,
                kind,
                amount: decimal(&amount),
            }),
            ..plain_version(component)
        });
        let invoice = billed(&world);
        assert_eq!(owed(&world, invoice.id), ["0", "0"], "{why}: the events are as they were");
        if !waived.is_empty() {
            let share = Some(Share::Amount(decimal(waived)));
            credit(&world, &CreateCreditNote { share, corrections: false, ..command(&world, invoice.id) })
                .expect("waived");
        }
        void_events(&world, 1..=voided);
        assert_eq!(owed(&world, invoice.id), expected, "{why}");
        if expected[1] == "0" {
            assert_eq!(credit(&world, &command(&world, invoice.id)), Err(Refusal::NothingToCredit.into()), "{why}");
            continue;
        }
        let note = credit(&world, &command(&world, invoice.id)).expect("a note");
        assert_eq!((plain(&note.amount), note.is_correction), (expected[1].to_owned(), true), "{why}");
        assert_eq!(owed(&world, invoice.id), ["0", "0"], "{why}: it is settled");
        world.advance("acme", NEXT + Duration::days(40));
        assert_eq!(late_lines(&world), Vec::<String>::new(), "{why}: and not given back again");
    }
}

#[test]
fn a_note_that_is_voided_leaves_the_difference_to_the_next_invoice() {
    let world = with_calls(10, "20", plain_version);
    let invoice = billed(&world);
    void_events(&world, 1..=3);
    let note = credit(&world, &command(&world, invoice.id)).expect("a note");
    world.advance("acme", NEXT + Duration::days(40));
    assert_eq!(
        preview(&world, invoice.id).lines[0].usage.as_ref().map(|usage| usage.outlook),
        Some(Outlook::NotAnyMore)
    );
    let key = world.key("acme");
    world.on("acme", |tx, now| void_credit_note(tx, key, note.id, now)).expect("voided");
    world.advance("acme", NEXT + Duration::days(80));
    assert_eq!(late_lines(&world), ["-3.6"]);
}

#[test]
fn what_comes_in_behind_a_note_is_billed_beside_it() {
    let world = with_calls(10, "", plain_version);
    let invoice = billed(&world);
    void_events(&world, 1..=3);
    credit(&world, &command(&world, invoice.id)).expect("a note");
    world.track_many("acme", "call", INSIDE + Duration::DAY, 2);
    assert_eq!(owed(&world, invoice.id), ["2", "0"], "nine calls, of which seven stay billed");
    world.advance("acme", NEXT);
    assert_eq!(late_lines(&world), ["2"]);
}

#[test]
fn time_that_is_still_billed_is_counted_as_far_as_it_was_billed() {
    let week = Interval { count: 1, unit: IntervalUnit::Week };
    let world =
        with_calls(10, "", |component| plain_version(NewComponent { invoicing_interval: Some(week), ..component }));
    world.advance("acme", datetime!(2024-01-08 00:30 UTC));
    let first = world.invoices("acme").pop().expect("the first week");
    world.advance("acme", datetime!(2024-01-10 00:00 UTC));
    world.track_many("acme", "call", datetime!(2024-01-10 00:00 UTC), 5);
    void_events(&world, 1..=4);
    assert_eq!(owed(&world, first.id), ["-4", "4"], "calls of the second week are not in arrears yet");
    credit(&world, &command(&world, first.id)).expect("a note");
    world.advance("acme", NEXT);
    let of_january = world.invoices("acme").into_iter().filter(|invoice| invoice.issued_at <= BILLED);
    let amounts: Vec<_> = of_january.map(|invoice| plain(&invoice.amount)).collect();
    assert_eq!(amounts, ["10", "5", "0", "0", "0"], "and the note took four of the ten");
}

#[test]
fn what_corrections_come_to_is_not_the_callers_to_say() {
    let world = with_calls(10, "", plain_version);
    let invoice = billed(&world);
    let said = CreateCreditNote { share: Some(Share::Percent(decimal("5"))), ..command(&world, invoice.id) };
    let Err(Error::Fields(errors)) = credit(&world, &said) else { panic!("a share beside corrections") };
    assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("corrections", FieldCode::NotAllowedTogether));
}
