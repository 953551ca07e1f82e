use bigdecimal::Zero;
use proptest::prelude::*;
use time::Duration;
use time::macros::datetime;
use uuid::Uuid;

use super::*;
use crate::currency::Currency;
use crate::decimal::plain;
use crate::decimal::tests::{laws, number_of};
use crate::id::InvoiceId;

const NOW: OffsetDateTime = datetime!(2026-03-01 0:00 UTC);

fn id(n: u128) -> CreditId {
    Uuid::from_u128(n).into()
}

fn invoice(n: u128) -> InvoiceId {
    Uuid::from_u128(n).into()
}

fn day(n: i64) -> OffsetDateTime {
    NOW + Duration::days(n)
}

fn usd() -> Currency {
    Currency::iso_4217("USD").expect("a currency")
}

fn credit(n: u128, amount: &str) -> Credit {
    Credit {
        id: id(n),
        currency_code: "USD".to_owned(),
        amount: number_of(amount),
        amount_paid: BigDecimal::zero(),
        amount_paid_currency_code: None,
        description: None,
        effective_at: NOW,
        expires_at: None,
        created_at: NOW,
    }
}

fn ledger(credit: Credit) -> CreditLedger {
    CreditLedger::grant(credit, id(1_000)).expect("a valid credit")
}

#[test]
fn checks_what_is_granted() {
    let paid = |amount: &str, currency: Option<&str>| Credit {
        amount_paid: number_of(amount),
        amount_paid_currency_code: currency.map(str::to_owned),
        ..credit(1, "10")
    };
    let expiring = |at| Credit { expires_at: Some(at), ..credit(1, "10") };
    #[rustfmt::skip]
    let cases = [
        // credit,                 error,                                          why
        (credit(1, "0.01"),        None,                                           "a cent"),
        (credit(1, "0"),           Some(CreditError::AmountNotPositive),           "nothing"),
        (credit(1, "-1"),          Some(CreditError::AmountNotPositive),           "a debt"),
        (paid("5", Some("EUR")),   None,                                           "paid in another currency"),
        (paid("5", None),          Some(CreditError::AmountPaidCurrencyRequired),  "paid in no currency"),
        (paid("-5", Some("EUR")),  Some(CreditError::AmountPaidNegative),          "paid less than nothing"),
        (expiring(day(1)),         None,                                           "a day long"),
        (expiring(NOW),            Some(CreditError::ExpiresBeforeEffective),      "never usable"),
    ];
    for (credit, error, why) in cases {
        assert_eq!(credit.check().err(), error, "{why}");
        assert_eq!(CreditLedger::grant(credit, id(1_000)).err(), error, "{why}");
    }
}

#[test]
fn expires_at_the_instant_itself() {
    let credit = Credit { effective_at: day(1), expires_at: Some(day(3)), ..credit(1, "10") };
    let microsecond = Duration::MICROSECOND;
    #[rustfmt::skip]
    let cases = [
        // now,                 expired, usable, status,                 why
        (NOW,                   false,   false,  CreditStatus::Active,   "not in effect yet, and active"),
        (day(1),                false,   true,   CreditStatus::Active,   "in effect from that instant"),
        (day(3) - microsecond,  false,   true,   CreditStatus::Active,   "the last instant"),
        (day(3),                true,    false,  CreditStatus::Inactive, "the expiry itself is too late"),
    ];
    for (now, expired, usable, status, why) in cases {
        assert_eq!((credit.is_expired(now), credit.is_usable(now)), (expired, usable), "{why}");
        assert_eq!(ledger(credit.clone()).status(now), status, "{why}");
    }
}

#[test]
fn draws_in_order_and_only_what_may_be_drawn() {
    let paid = |n, paid: &str, amount: &str, expires_at| Credit {
        amount_paid: number_of(paid),
        expires_at,
        ..credit(n, amount)
    };
    let ledgers: Vec<CreditLedger> = [
        paid(1, "0", "10", None),
        paid(2, "10", "10", None),
        paid(3, "0", "10", Some(day(20))),
        paid(4, "0", "10", Some(day(10))),
        paid(5, "3", "9", Some(day(10))),
        paid(6, "1", "3", Some(day(10))),
        Credit { effective_at: day(-1), created_at: day(-1), ..paid(7, "0", "10", None) },
        Credit { effective_at: day(5), ..credit(8, "100") },
        Credit { currency_code: "EUR".to_owned(), ..credit(9, "100") },
        Credit { effective_at: day(-9), expires_at: Some(NOW), created_at: day(-9), ..credit(10, "100") },
    ]
    .map(|credit| ledger(Credit { amount_paid_currency_code: Some("USD".to_owned()), ..credit }))
    .to_vec();
    #[rustfmt::skip]
    let cases: [(&str, &[(u128, &str)], &str); 6] = [
        // due,  credits drawn,                                                      why
        ("5",    &[(5, "5")],                                                        "earliest expiry, then the highest paid share"),
        ("11",   &[(5, "9"), (6, "2")],                                              "3 of 9 is 1 of 3: then by id"),
        ("25",   &[(5, "9"), (6, "3"), (4, "10"), (3, "3")],                         "given ones after paid ones, later expiry after"),
        ("500",  &[(5, "9"), (6, "3"), (4, "10"), (3, "10"), (2, "10"), (7, "10"), (1, "10")],
                                                                                     "no expiry last; not the future, foreign or expired"),
        ("0",    &[],                                                                "nothing due"),
        ("-5",   &[],                                                                "never on a negative invoice"),
    ];
    for (due, expected, why) in cases {
        let plan = drawdown_plan(&ledgers, &number_of(due), &usd(), NOW);
        let expected: Vec<Drawdown> =
            expected.iter().map(|(n, amount)| Drawdown { credit: id(*n), amount: number_of(amount) }).collect();
        assert_eq!(plan, expected, "{due}: {why}");
    }
}

#[test]
fn the_dearest_credit_is_drawn_first_wherever_it_stands() {
    let paid = |n, paid, amount| {
        let amount_paid_currency_code = Some("USD".to_owned());
        ledger(Credit { amount_paid: number_of(paid), amount_paid_currency_code, ..credit(n, amount) })
    };
    // A quarter, a half and three quarters of what they are worth.
    let mut ledgers = vec![paid(1, "1", "4"), paid(2, "1", "2"), paid(3, "3", "4")];
    for _ in 0..3 {
        ledgers.rotate_left(1);
        let drawn = drawdown_plan(&ledgers, &number_of("7"), &usd(), NOW);
        let ids: Vec<CreditId> = drawn.iter().map(|drawdown| drawdown.credit).collect();
        assert_eq!(ids, [id(3), id(2), id(1)]);
    }
}

#[test]
fn less_than_a_minor_unit_cannot_be_drawn() {
    let ledgers = [ledger(credit(1, "10.009"))];
    let plan = drawdown_plan(&ledgers, &number_of("20"), &usd(), NOW);
    assert_eq!(plan, [Drawdown { credit: id(1), amount: number_of("10") }], "cut, not rounded up to 10.01");
    assert!(drawdown_plan(&[ledger(credit(1, "0.009"))], &number_of("20"), &usd(), NOW).is_empty());
}

#[test]
fn voiding_takes_what_remains_once() {
    let mut ledger = ledger(credit(1, "100"));
    ledger.draw(number_of("30"), invoice(1), id(2), NOW).expect("enough");
    let entry = ledger.void(id(3), NOW).expect("active").clone();
    assert_eq!((entry.kind, plain(&entry.amount)), (EntryKind::Void, "70".to_owned()));
    assert_eq!(ledger.status(NOW), CreditStatus::Inactive);
    assert_eq!(ledger.void(id(4), NOW), None, "nothing happens to a voided credit");
    let overdraw = ledger.draw(number_of("0.01"), invoice(2), id(5), NOW);
    assert_eq!(overdraw.err(), Some(LedgerError::Overdrawn));
    assert_eq!(ledger.entries().len(), 3);
}

#[test]
fn voiding_an_expired_credit_does_nothing_and_expiry_waits_for_its_instant() {
    let mut ledger = ledger(Credit { expires_at: Some(day(1)), ..credit(1, "10") });
    assert_eq!(ledger.expire(id(2), day(1) - Duration::MICROSECOND), None, "not yet");
    assert_eq!(ledger.void(id(2), day(1)), None, "already expired");
    assert_eq!(plain(&ledger.expire(id(2), day(1)).expect("expired").amount), "10");
    assert_eq!(ledger.expire(id(3), day(2)), None, "nothing is left to expire");
}

#[test]
fn a_voided_invoice_gives_back_what_it_drew() {
    let mut ledger = ledger(credit(1, "100"));
    for (n, amount) in [(1, "30"), (2, "20"), (1, "5")] {
        ledger.draw(number_of(amount), invoice(n), id(2), NOW).expect("enough");
    }
    assert_eq!(plain(&ledger.restore(invoice(1), id(3), NOW).expect("drawn").amount), "35");
    assert_eq!(ledger.restore(invoice(1), id(4), NOW), None, "only once");
    assert_eq!(ledger.restore(invoice(3), id(4), NOW), None, "another invoice drew nothing");
    assert_eq!(plain(&ledger.remaining()), "80");
}

#[test]
fn updates_only_active_credits_and_only_to_the_future() {
    let open = ledger(credit(1, "10"));
    let mut used = open.clone();
    used.draw(number_of("10"), invoice(1), id(2), NOW).expect("enough");
    let late = ledger(Credit { effective_at: day(9), ..credit(1, "10") });
    #[rustfmt::skip]
    let cases = [
        // ledger, expiry,           error,                                     why
        (&open,    Some(Some(day(2))), None,                                    "later than now"),
        (&open,    Some(None),         None,                                    "cleared"),
        (&open,    None,               None,                                    "left as it is"),
        (&open,    Some(Some(day(1))), Some(CreditError::ExpiryInPast),         "now itself is past"),
        (&open,    Some(Some(NOW)),    Some(CreditError::ExpiryInPast),         "past"),
        (&used,    Some(Some(day(2))), Some(CreditError::NotActive),            "used up"),
        (&late,    Some(Some(day(5))), Some(CreditError::ExpiresBeforeEffective), "would end before it begins"),
    ];
    for (ledger, expires_at, error, why) in cases {
        let mut changed = ledger.clone();
        let result = changed.update(Some(Some("goodwill".to_owned())), expires_at, day(1));
        assert_eq!(result.err(), error, "{why}");
        if error.is_some() {
            assert_eq!(&changed, ledger, "a refused update changes nothing: {why}");
        } else {
            assert_eq!(changed.credit().description.as_deref(), Some("goodwill"), "{why}");
            assert_eq!(changed.credit().expires_at, expires_at.flatten(), "{why}");
        }
    }
}

#[test]
fn replaying_checks_every_entry() {
    let granted = ledger(credit(1, "100"));
    let entry = |kind, amount: &str| LedgerEntry { id: id(2), kind, amount: number_of(amount), invoice: None, at: NOW };
    #[rustfmt::skip]
    let cases = [
        // entries behind the grant,                                                     error,                         why
        (vec![entry(EntryKind::Drawdown, "100")],                                        None,                          "all drawn"),
        (vec![entry(EntryKind::Drawdown, "100.01")],                                     Some(LedgerError::Overdrawn),  "more than there was"),
        (vec![entry(EntryKind::Void, "60"), entry(EntryKind::Expiry, "60")],             Some(LedgerError::Overdrawn),  "twice the same"),
        (vec![entry(EntryKind::Restored, "1")],                                          Some(LedgerError::OverRestored), "nothing was drawn"),
        (vec![entry(EntryKind::Drawdown, "30"), entry(EntryKind::Restored, "30"), entry(EntryKind::Restored, "1")],
                                                                                         Some(LedgerError::OverRestored), "given back twice"),
        (vec![entry(EntryKind::Drawdown, "0")],                                          Some(LedgerError::NotPositive), "nothing"),
        (vec![entry(EntryKind::Drawdown, "-5")],                                         Some(LedgerError::NotPositive), "backwards"),
        (vec![entry(EntryKind::Grant, "5")],                                             Some(LedgerError::Grant),      "a second grant"),
    ];
    for (behind, error, why) in cases {
        let entries = [granted.entries().to_vec(), behind].concat();
        assert_eq!(CreditLedger::replay(granted.credit().clone(), entries).err(), error, "{why}");
    }
    assert_eq!(CreditLedger::replay(credit(1, "100"), vec![]).err(), Some(LedgerError::Grant), "no grant");
    let other = CreditLedger::replay(credit(1, "99"), granted.entries().to_vec());
    assert_eq!(other.err(), Some(LedgerError::Grant), "a grant of another amount");
    assert_eq!(CreditLedger::replay(granted.credit().clone(), granted.entries().to_vec()), Ok(granted));
}

#[test]
fn words_are_read_as_they_are_written() {
    for &kind in EntryKind::ALL {
        assert_eq!((kind.as_str().parse(), kind.to_string().as_str()), (Ok(kind), kind.as_str()));
        assert_eq!(serde_json::to_value(kind).expect("json"), kind.as_str());
    }
    for &status in CreditStatus::ALL {
        assert_eq!((status.as_str().parse(), status.to_string().as_str()), (Ok(status), status.as_str()));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Draw(u32, u128),
    Restore(u128),
    Void,
    Expire,
    Wait(i64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..5_000_u32, 0..4_u128).prop_map(|(cents, invoice)| Step::Draw(cents, invoice)),
        2 => (0..4_u128).prop_map(Step::Restore),
        1 => Just(Step::Void),
        1 => Just(Step::Expire),
        1 => (0..4_i64).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(laws())]

    #[test]
    fn a_credit_is_conserved_whatever_happens(
        cents in 1..10_000_u32,
        lifetime in prop::option::of(1..10_i64),
        steps in prop::collection::vec(any_step(), 0..15),
    ) {
        let amount = BigDecimal::new(cents.into(), 2);
        let granted = Credit { amount: amount.clone(), expires_at: lifetime.map(day), ..credit(1, "1") };
        let mut ledger = ledger(granted);
        let mut now = NOW;
        for step in steps {
            match step {
                Step::Draw(cents, n) => drop(ledger.draw(BigDecimal::new(cents.into(), 2), invoice(n), id(2), now)),
                Step::Restore(n) => drop(ledger.restore(invoice(n), id(2), now)),
                Step::Void => drop(ledger.void(id(2), now)),
                Step::Expire => drop(ledger.expire(id(2), now)),
                Step::Wait(days) => now += Duration::days(days),
            }
            let Balance { granted, drawn, restored, voided, expired } = ledger.balance().clone();
            let remaining = ledger.remaining();
            let out = &drawn - &restored;
            for part in [&remaining, &out, &restored, &voided, &expired] {
                prop_assert!(!part.is_negative());
            }
            prop_assert_eq!(&granted, &amount);
            prop_assert_eq!(remaining + out + voided + expired, amount.clone());
        }
        let replayed = CreditLedger::replay(ledger.credit().clone(), ledger.entries().to_vec());
        prop_assert_eq!(replayed, Ok(ledger));
    }

    #[test]
    fn a_plan_draws_all_that_is_due_or_all_there_is(
        amounts in prop::collection::vec((1..100_000_i64, 0..4_i64, prop::option::of(1..30_i64), -5..5_i64), 0..8),
        due in -1_000..200_000_i64,
    ) {
        let ledgers: Vec<CreditLedger> = amounts
            .iter()
            .enumerate()
            .map(|(n, (amount, scale, expiry, effective))| ledger(Credit {
                amount: BigDecimal::new((*amount).into(), *scale),
                effective_at: day(*effective),
                expires_at: expiry.map(|days| day(effective + days)),
                ..credit(n as u128, "1")
            }))
            .collect();
        let due = BigDecimal::new(due.into(), 2);
        let plan = drawdown_plan(&ledgers, &due, &usd(), NOW);
        let usable: Vec<&CreditLedger> = ledgers.iter().filter(|ledger| ledger.credit().is_usable(NOW)).collect();
        let most: BigDecimal = usable.iter().map(|ledger| ledger.remaining().with_scale(2)).sum();
        let drawn: BigDecimal = plan.iter().map(|drawdown| &drawdown.amount).sum();
        prop_assert_eq!(drawn, most.min(due.clone()).max(BigDecimal::zero()));
        for drawdown in &plan {
            let mut of = usable.iter().find(|ledger| ledger.credit().id == drawdown.credit).map(|ledger| (*ledger).clone());
            let entry = of.as_mut().map(|ledger| ledger.draw(drawdown.amount.clone(), invoice(1), id(2), NOW).is_ok());
            prop_assert_eq!(entry, Some(true));
        }
        let mut reversed: Vec<CreditLedger> = ledgers;
        reversed.reverse();
        prop_assert_eq!(drawdown_plan(&reversed, &due, &usd(), NOW), plan, "the order they are stored in is no matter");
    }
}
