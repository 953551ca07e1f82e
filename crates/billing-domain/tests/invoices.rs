//! What an invoice says of itself.

use billing_domain::invoice::{AdjustmentKind, BillingType, LineItem, PaymentStatus};
use billing_domain::period::Period;
use billing_domain::testing::build::{self, Ids};
use time::macros::{date, datetime};
use time::{Date, OffsetDateTime};
use uuid::Uuid;

const ISSUED: OffsetDateTime = datetime!(2026-02-01 0:30 UTC);

#[test]
fn its_dates_are_those_of_its_charges() {
    let charge = |start, end| LineItem {
        subscription: Some(Uuid::from_u128(7).into()),
        period: Period::new(start, end).expect("a period"),
        ..build::line("call", "1", ISSUED)
    };
    let january = charge(datetime!(2026-01-01 0:00 UTC), datetime!(2026-02-01 0:00 UTC));
    let february = charge(datetime!(2026-02-01 0:00 UTC), datetime!(2026-03-01 0:00 UTC));
    let credit = build::line("Applied Credit", "-1", ISSUED);
    #[rustfmt::skip]
    let cases: [(Vec<LineItem>, Date, Date, &str); 4] = [
        // lines,                                    start,               end,                 why
        (vec![january.clone()],                      date!(2026-01-01),   date!(2026-01-31),   "the last day inside"),
        (vec![february, january.clone()],            date!(2026-01-01),   date!(2026-02-28),   "first to last, in any order"),
        (vec![january, credit.clone()],              date!(2026-01-01),   date!(2026-01-31),   "a credit is for no time"),
        (vec![credit],                               date!(2026-02-01),   date!(2026-02-01),   "no charge: the day of issue"),
    ];
    let mut ids = Ids::new(1);
    let customer = build::customer(ids.next(), "acme", ISSUED);
    for (lines, start, end, why) in cases {
        let invoice = build::invoice(&mut ids, &customer, ISSUED, lines).numbered(1);
        assert_eq!((invoice.summary().start_date, invoice.summary().end_date), (start, end), "{why}");
    }
}

#[test]
fn its_words_are_stable() {
    assert_eq!(
        PaymentStatus::ALL.iter().map(|status| status.as_str()).collect::<Vec<_>>(),
        ["draft", "voided", "paid", "unpaid"]
    );
    let types: Vec<&str> = BillingType::ALL.iter().map(|billing_type| billing_type.as_str()).collect();
    assert_eq!(types, ["in_arrears", "intermediate", "in_advance", "one_time"]);
    let kinds: Vec<&str> = AdjustmentKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(kinds, ["sales_tax", "plan_adjustment"]);
}
