use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::credit::{CreditLedger, CreditStatus};
use crate::decimal::plain;
use crate::error::{Error, FieldCode, Refusal};
use crate::id::CreditId;
use crate::invoice::PaymentStatus;
use crate::testing::world::{World, decimal};
use crate::workflow::{CreateCredit, UpdateCredit, create_credit, update_credit, void_credit};

const NOW: OffsetDateTime = datetime!(2024-01-15 12:00 UTC);
const DAY: Duration = Duration::DAY;

fn command() -> CreateCredit {
    CreateCredit {
        customer: "acme".parse().expect("an id"),
        amount: decimal("100"),
        currency_code: "USD".to_owned(),
        description: None,
        effective_at: None,
        expires_at: None,
        amount_paid: decimal("0"),
        amount_paid_currency_code: None,
    }
}

fn world() -> World {
    let world = World::at(NOW);
    world.customer("acme");
    world
}

fn create(world: &World, command: &CreateCredit) -> Result<CreditLedger, Error> {
    world.on("acme", |tx, now| create_credit(tx, command, now))
}

fn update(
    world: &World,
    credit: CreditId,
    description: Option<Option<&str>>,
    expires_at: Option<Option<OffsetDateTime>>,
) -> Result<CreditLedger, Error> {
    let description = description.map(|text| text.map(str::to_owned));
    let command = UpdateCredit { customer: world.key("acme"), credit, description, expires_at };
    world.on("acme", |tx, now| update_credit(tx, &command, now))
}

fn void(world: &World, credit: CreditId) -> CreditLedger {
    let key = world.key("acme");
    world.on("acme", |tx, now| void_credit(tx, key, credit, now)).expect("an answer")
}

#[test]
fn a_credit_that_is_paid_for_is_invoiced_without_tax() {
    let world = world();
    let given = create(&world, &command()).expect("a credit");
    assert_eq!((plain(&given.remaining()), given.status(NOW)), ("100".to_owned(), CreditStatus::Active));
    assert!(world.invoices("acme").is_empty(), "a gift is not invoiced");

    let paid =
        CreateCredit { amount_paid: decimal("80"), amount_paid_currency_code: Some("EUR".to_owned()), ..command() };
    create(&world, &paid).expect("a credit");
    let [invoice] = &world.invoices("acme")[..] else { panic!("one invoice") };
    assert_eq!((plain(&invoice.amount), &*invoice.currency.code), ("80".to_owned(), "EUR"));
    assert_eq!((&*invoice.lines[0].name, invoice.payment_status), ("Credit Grant: €80", PaymentStatus::Unpaid));
}

#[test]
fn bad_fields_are_named() {
    let world = world();
    let zero = decimal("0");
    #[rustfmt::skip]
    let cases: [(CreateCredit, &str, FieldCode); 8] = [
        // command,                                                       attr,            code
        (CreateCredit { amount: zero.clone(), ..command() },              "amount",        FieldCode::MinValue),
        (CreateCredit { amount: decimal("-5"), ..command() },             "amount",        FieldCode::MinValue),
        (CreateCredit { amount_paid: decimal("-5"), ..command() },        "amount_paid",   FieldCode::MinValue),
        (CreateCredit { amount_paid: decimal("5"), ..command() },         "amount_paid_currency_code", FieldCode::Required),
        (CreateCredit { currency_code: "ZZZ".to_owned(), ..command() },   "currency_code", FieldCode::DoesNotExist),
        (CreateCredit { expires_at: Some(NOW), ..command() },             "expires_at",    FieldCode::Invalid),
        (CreateCredit { effective_at: Some(NOW + DAY), expires_at: Some(NOW + DAY), ..command() },
                                                                          "expires_at",    FieldCode::Invalid),
        (CreateCredit { customer: "nobody".parse().expect("an id"), ..command() }, "customer_id", FieldCode::DoesNotExist),
    ];
    for (command, attr, code) in cases {
        let Err(Error::Fields(errors)) = create(&world, &command) else { panic!("{attr}: refused") };
        assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), (attr, code));
    }
}

#[test]
fn only_an_active_credit_is_updated() {
    let world = world();
    let credit = create(&world, &command()).expect("a credit").credit().id;
    let later = update(&world, credit, Some(Some("promo")), Some(Some(NOW + DAY))).expect("updated");
    assert_eq!(later.credit().description.as_deref(), Some("promo"));
    let kept = update(&world, credit, None, None).expect("updated");
    assert_eq!(kept.credit(), later.credit(), "what is left out stays");
    assert_eq!(update(&world, credit, None, Some(Some(NOW))), Err(Refusal::CreditExpiryInPast.into()));
    let cleared = update(&world, credit, Some(None), Some(None)).expect("updated");
    assert_eq!((cleared.credit().description.clone(), cleared.credit().expires_at), (None, None));

    update(&world, credit, None, Some(Some(NOW + DAY))).expect("updated");
    world.store.set_now(NOW + DAY);
    let refused = update(&world, credit, Some(Some("late")), None);
    assert_eq!(refused, Err(Refusal::CreditNotActive.into()), "the instant of expiry itself is too late");
}

#[test]
fn voiding_takes_what_is_left_once() {
    let world = world();
    let credit = create(&world, &command()).expect("a credit").credit().id;
    let voided = void(&world, credit);
    assert_eq!((plain(&voided.remaining()), plain(&voided.balance().voided)), ("0".to_owned(), "100".to_owned()));
    assert_eq!(voided.status(NOW), CreditStatus::Inactive);
    assert_eq!(void(&world, credit).entries(), voided.entries(), "nothing happens the second time");
    assert_eq!(update(&world, credit, None, None), Err(Refusal::CreditNotActive.into()));
}
