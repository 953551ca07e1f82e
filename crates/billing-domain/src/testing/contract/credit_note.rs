//! Credit notes.

use std::thread;

use bigdecimal::BigDecimal;

use super::{Harness, Tenant};
use crate::credit_note::{CreditNote, CreditNoteLine, LinePart, NewCreditNote, Settlement};
use crate::customer::Customer;
use crate::error::{Error, Noun, Refusal};
use crate::id::{InvoiceId, LineId};
use crate::payment::PaymentKind;
use crate::store::{CreditNoteFilter, Page, PageRequest, Scope};
use crate::testing::build::{self, Ids, invoice, line};
use crate::testing::world::decimal;

impl Tenant<'_> {
    /// An invoice of 10.00 and 5.00.
    fn new_bill(&self, customer: &Customer) -> InvoiceId {
        let at = customer.created_at;
        let lines = vec![line("fee", "10.00", at), line("fee", "5.00", at)];
        let made = self.build(|ids| invoice(ids, customer, at, lines));
        self.customer(customer.key, |tx, _| tx.invoices().issue(made.clone()));
        made.id
    }

    /// A note that takes so much of each of the first lines.
    fn new_note(&self, customer: &Customer, invoice: InvoiceId, amounts: &[&str]) -> CreditNote {
        let line = |(place, amount): (usize, &&str)| CreditNoteLine {
            line: LineId::new(invoice, place + 1),
            part: LinePart { amount: decimal(amount), base: decimal(amount), tax: BigDecimal::from(0) },
        };
        let lines: Vec<_> = amounts.iter().enumerate().map(line).collect();
        CreditNote {
            id: self.build(Ids::next),
            number: String::new(),
            customer: customer.key,
            invoice,
            currency_code: "USD".to_owned(),
            issued_at: customer.created_at,
            amount: lines.iter().map(|line| &line.part.amount).sum(),
            credited: BigDecimal::from(0),
            settlement: Settlement::Balance,
            credit: None,
            reason: "down".to_owned(),
            reference: None,
            lines,
            is_correction: false,
            voided_at: None,
        }
    }

    fn add_note(&self, customer: &Customer, note: &CreditNote) -> Result<CreditNote, Error> {
        let new = NewCreditNote::new(note.clone());
        self.try_customer(customer.key, |tx, _| tx.invoices().add_credit_note(new.clone()))
    }
}

pub(super) fn keeps_every_field(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let credit = tenant.new_credit(&acme, "7.5", acme.created_at).credit().id;
    let bill = tenant.new_bill(&acme);
    let balance = CreditNote {
        credited: decimal("7.5"),
        credit: Some(credit),
        ..tenant.new_note(&acme, bill, &["6.25", "2.25"])
    };
    let outside = CreditNote {
        credited: decimal("0.01"),
        settlement: Settlement::Outside,
        reference: Some("re_1".to_owned()),
        is_correction: true,
        ..tenant.new_note(&acme, bill, &["0.01"])
    };
    let kept = [&balance, &outside].map(|note| tenant.add_note(&acme, note).expect("kept"));
    let day = crate::invoice::number_prefix(acme.created_at);
    let expected = [(&balance, 1), (&outside, 2)]
        .map(|(note, n)| CreditNote { number: format!("CN-{day}{n:06}"), ..note.clone() });
    assert_eq!(kept, expected);
    for note in &kept {
        assert_eq!(&tenant.look(|tx, _| tx.invoices().get_credit_note(note.id)), note);
    }
    let briefs = tenant.look(|tx, _| tx.invoices().get(bill)).credit_notes;
    assert_eq!(briefs, kept.each_ref().map(CreditNote::brief), "listed on the invoice");
    let absent = tenant.build(Ids::next);
    let missing = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.invoices().get_credit_note(absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::CreditNote)));
}

pub(super) fn lists_by_age(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let [acme, other] = ["acme", "other"].map(|name| tenant.new_customer(name));
    let [first, second] = [(); 2].map(|()| tenant.new_bill(&acme));
    let of_other = tenant.new_bill(&other);
    let place = |owner: &Customer, bill, days| {
        let issued_at = owner.created_at + time::Duration::days(days);
        let note = CreditNote { issued_at, ..tenant.new_note(owner, bill, &["1"]) };
        tenant.add_note(owner, &note).expect("kept")
    };
    let notes = [(&acme, first, 1), (&acme, second, 2), (&other, of_other, 3), (&acme, first, 4)];
    let [a, b, c, d] = notes.map(|(owner, bill, days)| place(owner, bill, days));
    let list = |customer: Option<&Customer>, invoice, page: &PageRequest| -> Page<CreditNote> {
        let filter = CreditNoteFilter { customer: customer.map(|owner| owner.key), invoice };
        tenant.look(|tx, _| tx.invoices().list_credit_notes(&filter, page))
    };
    let whole = PageRequest::first();
    assert_eq!(list(None, None, &whole).items, [d.clone(), c, b.clone(), a.clone()], "newest first");
    assert_eq!(list(Some(&acme), None, &whole).items, [d.clone(), b, a.clone()]);
    assert_eq!(list(None, Some(first), &whole).items, [d.clone(), a.clone()]);
    assert_eq!(list(Some(&other), Some(first), &whole).items, []);
    let page = list(Some(&acme), Some(first), &PageRequest { limit: 1, after: None });
    assert_eq!(page.items, [d]);
    let rest = list(Some(&acme), Some(first), &PageRequest { limit: 1, after: page.next });
    assert_eq!((rest.items, rest.next), (vec![a], None));
}

pub(super) fn takes_no_more_than_a_line(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let bill = tenant.new_bill(&acme);
    let whole = tenant.add_note(&acme, &tenant.new_note(&acme, bill, &["10", "4.99"])).expect("kept");
    let refused = Err(Error::Refused(Refusal::CreditExceedsLine));
    assert_eq!(tenant.add_note(&acme, &tenant.new_note(&acme, bill, &["0.01"])), refused);
    let voided_at = acme.created_at + time::Duration::days(1);
    let void = || tenant.try_customer(acme.key, |tx, _| tx.invoices().void_credit_note(acme.key, whole.id, voided_at));
    assert_eq!(void(), Ok(()));
    assert_eq!(void(), Err(Error::NotFound(Noun::CreditNote)), "once");
    let stored = tenant.look(|tx, _| tx.invoices().get_credit_note(whole.id));
    assert_eq!(stored, CreditNote { voided_at: Some(voided_at), ..whole });
    assert_eq!(tenant.look(|tx, _| tx.invoices().get(bill)).credit_notes, [stored.brief()]);
    let again = tenant.add_note(&acme, &tenant.new_note(&acme, bill, &["10", "5"])).expect("what the void left");
    assert!(again.number.ends_with("-000002"), "what was refused took no number: {}", again.number);
}

pub(super) fn settles_its_invoice(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let bill = tenant.new_bill(&acme);
    let note = tenant.add_note(&acme, &tenant.new_note(&acme, bill, &["10", "5"])).expect("kept");
    let entry = |kind| crate::payment::Payment {
        kind,
        credit_note: Some(note.id),
        reference: None,
        ..tenant.build(|ids| build::payment(ids, bill, "15", acme.created_at))
    };
    for (kind, due, status) in [(PaymentKind::CreditNote, "0", "paid"), (PaymentKind::CreditNoteVoided, "15", "unpaid")]
    {
        let entry = entry(kind);
        tenant.customer(acme.key, |tx, _| tx.invoices().add_payment(acme.key, &entry));
        let stored = tenant.look(|tx, _| tx.invoices().get(bill));
        assert_eq!((stored.amount_due(), stored.payment_status.as_str()), (decimal(due), status));
        let listed = tenant.look(|tx, _| tx.invoices().list_payments(acme.key, Some(bill)));
        assert_eq!(listed.last(), Some(&entry));
    }
}

pub(super) fn is_another_tenants(harness: &Harness<'_>) {
    let [owner, other] = [Tenant::new(harness), Tenant::new(harness)];
    let acme = owner.new_customer("acme");
    let bill = owner.new_bill(&acme);
    let note = owner.add_note(&acme, &owner.new_note(&acme, bill, &["1"])).expect("kept");
    let theirs = other.new_customer("acme");
    let seen = other.run(&Scope::Organization(other.id), |tx, _| tx.invoices().get_credit_note(note.id));
    assert_eq!(seen, Err(Error::NotFound(Noun::CreditNote)));
    assert_eq!(
        other.look(|tx, _| tx.invoices().list_credit_notes(&CreditNoteFilter::default(), &PageRequest::first())).items,
        []
    );
    let scope = Scope::Customer(other.id, theirs.key);
    let voided = other.run(&scope, |tx, _| tx.invoices().void_credit_note(theirs.key, note.id, theirs.created_at));
    assert_eq!(voided, Err(Error::NotFound(Noun::CreditNote)));
    let stolen = NewCreditNote::new(CreditNote { customer: theirs.key, ..other.new_note(&acme, bill, &["1"]) });
    let added = other.run(&scope, |tx, _| tx.invoices().add_credit_note(stolen.clone()));
    assert_eq!(added, Err(Error::NotFound(Noun::Invoice)));
    let mine = other.new_bill(&theirs);
    let first = other.add_note(&theirs, &other.new_note(&theirs, mine, &["1"])).expect("kept");
    assert!(first.number.ends_with("-000001"), "each organization counts by itself: {}", first.number);
}

pub(super) fn numbers_without_a_gap(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let customers: Vec<_> = (0..4).map(|n| tenant.new_customer(&format!("c{n}"))).collect();
    let bills: Vec<_> = customers.iter().map(|customer| tenant.new_bill(customer)).collect();
    let notes: Vec<_> = customers
        .iter()
        .zip(&bills)
        .map(|(customer, bill)| [(); 3].map(|()| NewCreditNote::new(tenant.new_note(customer, *bill, &["1"]))))
        .collect();
    let (store, organization) = (harness.store, tenant.id);
    thread::scope(|scope| {
        for (customer, notes) in customers.iter().zip(&notes) {
            scope.spawn(move || {
                for (n, note) in notes.iter().enumerate() {
                    let kept = store.run_for(&Scope::Customer(organization, customer.key), |tx, _| {
                        tx.invoices().add_credit_note(note.clone())?;
                        // What is undone gives its number back.
                        if n == 1 { Err(Error::NotFound(Noun::CreditNote)) } else { Ok(()) }
                    });
                    assert_eq!(kept.is_ok(), n != 1);
                }
            });
        }
    });
    let kept =
        tenant.look(|tx, _| tx.invoices().list_credit_notes(&CreditNoteFilter::default(), &PageRequest::first()));
    let mut numbers: Vec<_> = kept.items.into_iter().map(|note| note.number).collect();
    numbers.sort();
    let ends: Vec<_> = numbers.iter().map(|number| number.rsplit('-').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(ends, (1..=8).map(|n| format!("{n:06}")).collect::<Vec<_>>());
}
