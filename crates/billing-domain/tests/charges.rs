//! Billing records by themselves: what they remember, and what they put on a line.

use billing_domain::BigDecimal;
use billing_domain::charge::{Billed, BillingRecord, ChargeRef, Prepaid, count_records, records_of};
use billing_domain::decimal::plain;
use billing_domain::period::{Interval, IntervalUnit, Period};
use billing_domain::plan::{ChargeTiming, Component, RecurringCharge};
use billing_domain::subscription::Subscription;
use billing_domain::testing::build::{self, Ids, days_from};
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

const START: OffsetDateTime = datetime!(2026-01-01 0:00 UTC);

fn day(n: i64) -> OffsetDateTime {
    START + Duration::days(n)
}

fn fee() -> (RecurringCharge, Subscription, BillingRecord) {
    let mut ids = Ids::new(1);
    let plan = build::plan(&mut ids, "Pro", START);
    let version = build::plan_version(&mut ids, &plan, START);
    let customer = build::customer(ids.next(), "acme", START).key;
    let subscription = build::subscription(&mut ids, customer, &version, days_from(START, 10));
    let charge = RecurringCharge { amount: 10.into(), ..build::recurring_charge(&mut ids, "base") };
    let record = build::billing_record(&mut ids, &subscription, ChargeRef::Recurring(charge.id));
    (charge, subscription, record)
}

#[test]
fn a_reference_names_one_charge() {
    let [one, other] = [1, 2].map(|n| Uuid::from_u128(n).into());
    assert!(ChargeRef::Recurring(one).is(one));
    assert!(!ChargeRef::Recurring(one).is(other));
    assert!(!ChargeRef::Component(Uuid::from_u128(1).into()).is(one), "a component is no fee, whatever its id");
}

#[test]
fn nothing_has_been_billed_until_something_was() {
    let of = |exact: i32, given: i32| Billed { exact: exact.into(), given: given.into(), ..Billed::default() };
    assert!(Billed::default().is_nothing());
    assert!(!of(1, 1).is_nothing());
    assert!(!of(0, 1).is_nothing(), "what was given and is due back");
    assert!(!of(1, 0).is_nothing(), "what rounds to nothing yet");
}

#[test]
fn instants_are_left_behind_up_to_and_with_now() {
    let (.., record) = fee();
    #[rustfmt::skip]
    let cases = [
        // now, next,     why
        (2,     Some(3),  "before the first"),
        (3,     Some(7),  "the instant itself has passed"),
        (6,     Some(7),  "between two"),
        (7,     None,     "the last one"),
    ];
    for (now, next, why) in cases {
        let mut record = BillingRecord { invoicing_instants: vec![day(3), day(7)], ..record.clone() };
        record.pass(day(now));
        assert_eq!(record.next_invoicing_at(), next.map(day), "{why}");
    }
}

#[test]
fn a_fee_shows_how_many_copies_it_is_for_only_when_there_are_several() {
    for (copies, shown, amount) in [(1, None, "10"), (2, Some(BigDecimal::from(2)), "20")] {
        let (charge, mut subscription, mut record) = fee();
        subscription.quantity = copies;
        let line = record.charge_recurring(&charge, &subscription, 2, START).expect("a line");
        assert_eq!((line.quantity, plain(&line.amount).as_str()), (shown, amount));
        assert!(record.charge_recurring(&charge, &subscription, 2, day(10)).is_none(), "nothing is left");
    }
}

#[test]
fn arrears_are_intermediate_until_the_time_is_over() {
    let (charge, subscription, mut record) = fee();
    let charge = RecurringCharge { timing: ChargeTiming::InArrears, ..charge };
    let mut lines = Vec::new();
    for at in [4, 10, 12] {
        let line = record.charge_recurring(&charge, &subscription, 2, day(at));
        lines.push(line.map(|line| (line.billing_type.as_str(), plain(&line.amount))));
    }
    let expected = [Some(("intermediate", "4".to_owned())), Some(("in_arrears", "6".to_owned())), None];
    assert_eq!(lines, expected);
}

#[test]
fn records_are_counted_as_they_would_be_made() {
    let (charge, subscription, _) = fee();
    let mut ids = Ids::new(2);
    let plan = build::plan(&mut ids, "Pro", START);
    let mut version = build::plan_version(&mut ids, &plan, START);
    let every = |days| Some(Interval::new(IntervalUnit::Day, days).expect("at least 1"));
    let component = build::component(&mut ids, Uuid::from_u128(9).into());
    version.components = vec![Component { reset_interval: every(3), ..component.clone() }, component];
    version.recurring_charges = vec![RecurringCharge { reset_interval: every(1), ..charge }];
    let records = records_of(&version, &subscription, &mut || ids.next::<Uuid>()).expect("records");
    assert_eq!((records.len(), count_records(&version, &subscription)), (15, 15), "4 and 1 of usage, 10 fees");
    let empty = Subscription { period: Period::at(START), ..subscription };
    assert_eq!(count_records(&version, &empty), 0, "no time, no records");
}

/// The segments as `units from-to`, in days.
fn shown(record: &BillingRecord) -> Vec<String> {
    let day = |at: OffsetDateTime| (at - START).whole_days();
    let segments = record.prepaid.iter().flat_map(|prepaid| &prepaid.segments);
    segments
        .map(|segment| {
            format!("{} {}-{}", plain(&segment.units), day(segment.period.start()), day(segment.period.end()))
        })
        .collect()
}

fn prepaid(changes: &[(i32, i64)]) -> BillingRecord {
    let (.., record) = fee();
    let prepaid = Prepaid { segments: Vec::new(), billed: Billed::default() };
    let mut record = BillingRecord { prepaid: Some(prepaid), ..record };
    for (units, from) in changes {
        record.change_prepaid_units(&(*units).into(), day(*from));
    }
    record
}

#[test]
fn prepaid_units_tile_the_time() {
    #[rustfmt::skip]
    let cases: [(&[(i32, i64)], &[&str], &str); 5] = [
        // units from day,            segments,                      why
        (&[(5, 0)],                   &["5 0-10"],                   "all of it"),
        (&[(5, 0), (8, 4)],           &["5 0-4", "8 4-10"],          "from the change on"),
        (&[(5, 0), (8, 4), (5, 7)],   &["5 0-4", "8 4-7", "5 7-10"], "and back"),
        (&[(5, 0), (8, 4), (9, 4)],   &["5 0-4", "9 4-10"],          "the last word at one instant"),
        (&[(5, 0), (8, -3)],          &["8 0-10"],                   "before the time begins: from its start"),
    ];
    for (changes, segments, why) in cases {
        assert_eq!(shown(&prepaid(changes)), segments, "{why}");
    }
    let (.., mut none) = fee();
    none.change_prepaid_units(&5.into(), day(1));
    assert_eq!(none.prepaid, None, "a record without prepaid units has none to change");
}

#[test]
fn prepaid_units_follow_the_end_of_their_time() {
    #[rustfmt::skip]
    let cases: [(i64, &[&str], &str); 5] = [
        // new end, segments,               why
        (10,        &["5 0-4", "8 4-10"],   "the same"),
        (14,        &["5 0-4", "8 4-14"],   "the last units go on"),
        (6,         &["5 0-4", "8 4-6"],    "or end sooner"),
        (4,         &["5 0-4"],             "what would begin at the end is nothing"),
        (3,         &["5 0-3"],             "nor what would begin behind it"),
    ];
    for (end, segments, why) in cases {
        let mut record = prepaid(&[(5, 0), (8, 4)]);
        record.period = Period::new(START, day(end)).expect("a period");
        record.reprice_prepaid();
        assert_eq!(shown(&record), segments, "{why}");
    }
}
