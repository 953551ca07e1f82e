//! Customers.

use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{Harness, Tenant};
use crate::address::Address;
use crate::customer::{Customer, CustomerFields, PaymentProvider};
use crate::error::{Error, Noun, Refusal};
use crate::id::{OneOffLineId, TaxHookId};
use crate::one_off_line::OneOffLine;
use crate::period::Period;
use crate::store::{PageRequest, Scope, SearchedBy};
use crate::tax::{TaxOutcome, TaxProvider, TaxQuote};
use crate::testing::build::{customer, object};
use crate::testing::world::decimal;

/// One answer of each kind, from `from` on.
fn quotes(from: OffsetDateTime) -> Vec<TaxQuote> {
    let outcomes = [
        TaxOutcome::Rate(decimal("8.1000")),
        TaxOutcome::NoRate,
        TaxOutcome::Failed("no answer \"in time\"".to_owned()),
    ];
    let hook = TaxHookId::from(Uuid::from_u128(7));
    outcomes.map(|outcome| TaxQuote { hook, from, until: from + TaxQuote::USUAL_TIME, outcome }).into()
}

/// What waits to be charged once.
fn one_off_line(now: OffsetDateTime) -> OneOffLine {
    OneOffLine {
        id: OneOffLineId::from(Uuid::from_u128(9)),
        name: "a \"move\"".to_owned(),
        quantity: Some(decimal("3")),
        unit_amount: Some(decimal("0.333333333333333")),
        amount: decimal("1"),
        currency_code: "EUR".to_owned(),
        is_taxed: false,
        period: Period::new(now - Duration::days(3), now).expect("a period"),
        created_at: now,
    }
}

pub(super) fn keeps_every_field(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let address = |line1: &str| Address {
        city: "Bern".to_owned(),
        country: "CH".to_owned(),
        line1: line1.to_owned(),
        line2: Some("c/o".to_owned()),
        postal_code: "3000".to_owned(),
        state: None,
    };
    let made = Customer {
        email: Some("a@acme.io".to_owned()),
        default_currency_code: "EUR".to_owned(),
        tax_quotes: quotes(tenant.now()),
        one_off_lines: vec![one_off_line(tenant.now())],
        timezone: "Europe/Zurich".to_owned(),
        fields: CustomerFields {
            name: Some("Acme Inc.".to_owned()),
            billing_address: Some(address("1 Street")),
            shipping_address: Some(address("2 Street")),
            tax_rate: Some(decimal("0")),
            tax_providers: vec![TaxProvider::FlatRate, TaxProvider::Http],
            payment_provider: Some(PaymentProvider::Stripe),
            payment_provider_id: Some("cus_1".to_owned()),
            has_payment_method: true,
            // Every number as it was written, in whatever size.
            properties: object(r#"{"a": 1.50, "b": [1e400, {"c": "\u00e9"}], "d": null}"#),
        },
        ..customer(tenant.id, "a/b c.d@e", tenant.now())
    };
    tenant.customer(made.key, |tx, _| tx.customers().insert(&made));
    assert_eq!(tenant.look(|tx, _| tx.customers().get(made.key)), made);
    let absent = customer(tenant.id, "absent", made.created_at);
    let missing = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.customers().get(absent.key));
    assert_eq!(missing, Err(Error::NotFound(Noun::Customer)));
    let missing = tenant.try_customer(absent.key, |tx, now| tx.customers().advance_instant(absent.key, now));
    assert_eq!(missing, Err(Error::NotFound(Noun::Customer)));
}

pub(super) fn lists_in_pages(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let start = tenant.now();
    let made: Vec<_> = (0..5)
        .map(|n| {
            let made = customer(tenant.id, &format!("customer {}", 9 - n), start + Duration::seconds(n));
            tenant.customer(made.key, |tx, _| tx.customers().insert(&made));
            made
        })
        .collect();
    let page =
        |limit, after| tenant.look(|tx, _| tx.customers().list(&PageRequest { limit, after: Option::clone(&after) }));
    let (mut seen, mut after) = (Vec::new(), None);
    for expected in [2, 2, 1] {
        let part = page(2, after);
        assert_eq!(part.items.len(), expected);
        seen.extend(part.items);
        after = part.next;
    }
    assert_eq!((&seen, after), (&made, None), "all of them once, in order of creation");
    assert_eq!(page(5, None).next, None, "a full page with nothing behind it is the last");
    assert_eq!(tenant.look(|tx, _| tx.customers().list(&PageRequest::first())).items, made);
}

pub(super) fn refuses_a_taken_id(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let first = tenant.new_customer("acme");
    let again = tenant.try_customer(first.key, |tx, now| tx.customers().insert(&customer(tenant.id, "acme", now)));
    assert!(matches!(again, Err(Error::Refused(Refusal::DuplicateResource(_)))), "{again:?}");
}

pub(super) fn refuses_a_taken_email(harness: &Harness<'_>) {
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    let with_email = |tenant: &Tenant<'_>, id: &str| {
        let made = Customer { email: Some("a@acme.io".to_owned()), ..customer(tenant.id, id, tenant.now()) };
        tenant.try_customer(made.key, |tx, _| tx.customers().insert(&made))
    };
    assert_eq!(with_email(&tenant, "first"), Ok(()));
    let taken = with_email(&tenant, "second");
    assert!(matches!(taken, Err(Error::Refused(Refusal::DuplicateResource(_)))), "{taken:?}");
    assert_eq!(with_email(&other, "first"), Ok(()), "free in another organization");
    tenant.new_customer("third");
    tenant.new_customer("fourth");
}

pub(super) fn never_goes_back_in_time(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let now = || tenant.customer(acme.key, |_, now| Ok(now));
    assert!(now() >= acme.created_at);
    let ahead = now() + Duration::hours(1);
    tenant.customer(acme.key, |tx, _| tx.customers().advance_instant(acme.key, ahead));
    assert_eq!(now(), ahead, "its last change was later than the clock says");
    tenant.customer(acme.key, |tx, _| tx.customers().advance_instant(acme.key, acme.created_at));
    assert_eq!(now(), ahead, "an earlier instant changes nothing");
    assert_eq!(tenant.look(|tx, _| tx.customers().now(acme.key)), ahead, "from any scope");
    let absent = customer(tenant.id, "absent", ahead).key;
    let fresh = tenant.customer(absent, |_, now| Ok(now));
    assert!(fresh < ahead, "a customer to be has the present time");
}

pub(super) fn tells_the_times_of_many(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let clock = tenant.new_clock(time::macros::datetime!(2030-01-01 0:00 UTC));
    let (present, future) = (tenant.new_customer("present"), tenant.new_customer_of(&clock, "future"));
    let ahead = tenant.now() + Duration::hours(1);
    tenant.customer(present.key, |tx, _| tx.customers().advance_instant(present.key, ahead));
    let keys = [future.key, present.key, future.key];
    let nows = tenant.look(|tx, _| tx.customers().nows(&keys));
    assert_eq!(nows, [clock.frozen_time, ahead, clock.frozen_time], "each as it is asked for");
    assert!(tenant.look(|tx, _| tx.customers().nows(&[])).is_empty());
}

pub(super) fn finds_by_how_they_begin(harness: &Harness<'_>) {
    let (tenant, stranger) = (Tenant::new(harness), Tenant::new(harness));
    let long = "x".repeat(SearchedBy::CHARACTERS);
    #[rustfmt::skip]
    let made = [
        // tenant,   id,        name,                    whether it was deleted
        (&tenant,    "c-1",     Some("Acme"),             false),
        (&tenant,    "C-2",     Some("ACME 100%_off"),    false),
        (&tenant,    "acme",    None,                     false),
        (&tenant,    "gone",    Some("Acme of old"),      true),
        (&tenant,    "d",       Some("Ärger"),            false),
        (&tenant,    "e",       Some("The Acme"),         false),
        (&tenant,    "f",       Some(&*long),             false),
        (&stranger,  "c-9",     Some("Acme"),             false),
    ];
    for (tenant, id, name, is_gone) in made {
        let fields = CustomerFields { name: name.map(str::to_owned), ..CustomerFields::default() };
        let made = Customer { fields, ..customer(tenant.id, id, tenant.now()) };
        tenant.customer(made.key, |tx, _| tx.customers().insert(&made));
        if is_gone {
            let gone = Customer { deleted_at: Some(made.created_at), ..made };
            tenant.customer(gone.key, |tx, _| tx.customers().update(&gone));
        }
    }
    let longer = format!("{long}y");
    #[rustfmt::skip]
    let cases = [
        // by,               beginning,    limit, found,                  why
        (SearchedBy::Name,   "acme",       9,     vec!["c-1", "C-2"],     "in the order of names; not what has it inside, nor who was deleted"),
        (SearchedBy::Name,   "AcMe",       9,     vec!["c-1", "C-2"],     "in either case"),
        (SearchedBy::Name,   "acme",       1,     vec!["c-1"],            "no more than asked for"),
        (SearchedBy::Name,   "acme 100%_", 9,     vec!["C-2"],            "signs stand for themselves"),
        (SearchedBy::Name,   "acme 1%",    9,     vec![],                 "all of them"),
        (SearchedBy::Name,   "Ä",          9,     vec!["d"],              "other letters as they are written"),
        (SearchedBy::Name,   "ä",          9,     vec![],                 "and in no other case"),
        (SearchedBy::Name,   &longer,      9,     vec!["f"],              "what is beyond the bound is not looked at"),
        (SearchedBy::Id,     "c-",         9,     vec!["c-1", "C-2"],     "ids alike, and nobody else's"),
        (SearchedBy::Id,     "acme",       9,     vec!["acme"],           "who has no name has an id"),
        (SearchedBy::Id,     "",           2,     vec!["acme", "c-1"],    "everybody begins with nothing"),
    ];
    for (by, beginning, limit, expected, why) in cases {
        let found = tenant.look(|tx, _| tx.customers().search(by, beginning, limit));
        let ids: Vec<&str> = found.iter().map(|customer| customer.id.as_str()).collect();
        assert_eq!(ids, expected, "{by:?} {beginning}: {why}");
    }
}

pub(super) fn updates_and_deletes(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let email = |text: &str| Some(text.to_owned());
    let made = Customer { email: email("a@acme.io"), ..customer(tenant.id, "acme", tenant.now()) };
    let other = Customer { email: email("b@acme.io"), ..customer(tenant.id, "other", tenant.now()) };
    for customer in [&made, &other] {
        tenant.customer(customer.key, |tx, _| tx.customers().insert(customer));
    }
    let changed = Customer {
        email: email("c@acme.io"),
        default_currency_code: "EUR".to_owned(),
        tax_quotes: quotes(made.created_at),
        one_off_lines: vec![one_off_line(made.created_at)],
        fields: CustomerFields {
            name: Some("Acme Inc.".to_owned()),
            tax_rate: Some(decimal("7.7")),
            tax_providers: vec![TaxProvider::Http],
            has_payment_method: true,
            ..CustomerFields::default()
        },
        ..made.clone()
    };
    tenant.customer(made.key, |tx, _| tx.customers().update(&changed));
    assert_eq!(tenant.look(|tx, _| tx.customers().get(made.key)), changed);
    #[rustfmt::skip]
    let cases = [
        // tenant, address,      whose,           why
        (&tenant,  "c@acme.io",  Some(made.key),  "since it was changed"),
        (&tenant,  "a@acme.io",  None,            "until then"),
        (&tenant,  "b@acme.io",  Some(other.key), "another one's"),
        (&tenant,  "C@acme.io",  None,            "written otherwise"),
        (&Tenant::new(harness), "c@acme.io", None, "nobody's in another organization"),
    ];
    for (tenant, email, whose, why) in cases {
        assert_eq!(tenant.look(|tx, _| tx.customers().find_by_email(email)), whose, "{email}: {why}");
    }
    let taken = Customer { email: email("b@acme.io"), ..changed.clone() };
    let refused = tenant.try_customer(made.key, |tx, _| tx.customers().update(&taken));
    assert!(matches!(refused, Err(Error::Refused(Refusal::DuplicateResource(_)))), "{refused:?}");

    let gone = Customer { deleted_at: Some(made.created_at), ..changed };
    tenant.customer(made.key, |tx, _| tx.customers().update(&gone));
    let missing = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.customers().get(made.key));
    assert_eq!(missing, Err(Error::NotFound(Noun::Customer)));
    assert_eq!(tenant.look(|tx, _| tx.customers().get_even_deleted(made.key)), gone);
    assert_eq!(tenant.look(|tx, _| tx.customers().list(&PageRequest::first())).items, [other]);
    let again = tenant.try_customer(made.key, |tx, _| tx.customers().insert(&made));
    assert!(matches!(again, Err(Error::Refused(Refusal::DuplicateResource(_)))), "the id stays taken: {again:?}");
}

pub(super) fn notes_who_is_catching_up(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let made = tenant.new_customer("acme");
    assert!(!made.catching_up);
    for catching_up in [true, false] {
        let seen = tenant.customer(made.key, |tx, _| {
            tx.customers().set_catching_up(made.key, catching_up)?;
            Ok(tx.customers().get(made.key)?.catching_up)
        });
        assert_eq!(seen, catching_up, "at once");
        tenant.customer(made.key, |tx, _| tx.customers().update(&made));
        let expected = Customer { catching_up, ..made.clone() };
        assert_eq!(tenant.look(|tx, _| tx.customers().get(made.key)), expected, "an update leaves it alone");
    }
    let absent = customer(tenant.id, "absent", made.created_at).key;
    let missing = tenant.try_customer(absent, |tx, _| tx.customers().set_catching_up(absent, true));
    assert_eq!(missing, Err(Error::NotFound(Noun::Customer)));
}
