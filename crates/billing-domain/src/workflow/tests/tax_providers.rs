//! Rates that an organization's own provider knows: asked for between transactions, and once for each invoice.

use std::cell::RefCell;

use time::OffsetDateTime;
use time::macros::datetime;

use crate::address::Address;
use crate::error::{Error, FieldCode, TaxNeed};
use crate::invoice::{AdjustmentBasis, Invoice};
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::store::Transaction;
use crate::tax::TaxProvider::{FlatRate, Http};
use crate::tax::{QUOTES_MAX, TaxFailure, TaxOutcome, TaxProvider};
use crate::testing::world::{World, decimal, fee, subscription, version};
use crate::workflow::{
    CustomerPatch, DraftInvoice, NewTaxHook, OrganizationPatch, Progress, TaxAnswer, WORKER_WORK_MAX, bill_customer,
    bill_customer_partly, draft_invoice, note_tax_quote, tax_question, update_customer,
};

pub(super) const START: OffsetDateTime = datetime!(2026-01-31 0:00 UTC);

/// An organization with a provider of its own, which is asked as a service would.
pub(super) struct Taxed {
    pub(super) world: World,
    /// The instants that it was asked for.
    pub(super) asked: RefCell<Vec<OffsetDateTime>>,
}

impl Taxed {
    /// With a customer who has a subscription of 100 a month.
    pub(super) fn new(providers: &[TaxProvider], on_tax_failure: TaxFailure) -> Self {
        let taxed = Self::without_subscription(providers, on_tax_failure);
        let plan = taxed.world.plan(Some(PlanDuration::Monthly), version(vec![fee("100", InAdvance)], vec![]));
        let command = subscription("acme", plan, START);
        if providers.first() == Some(&Http) {
            assert!(matches!(taxed.world.subscribe(&command), Err(Error::TaxRate(_))), "nobody has asked yet");
            assert_eq!(taxed.invoices(), [], "and nothing is done");
        }
        taxed.asking(&rate("20"), |world| world.subscribe(&command)).expect("subscribed");
        taxed
    }

    pub(super) fn without_subscription(providers: &[TaxProvider], on_tax_failure: TaxFailure) -> Self {
        let world = World::at(START);
        let hook =
            NewTaxHook { url: Some("https://tax.example".to_owned()), secret: None, fresh_secret: "s".to_owned() };
        world.set(&OrganizationPatch {
            tax_providers: Some(providers.to_vec()),
            tax_hook: Some(Some(hook)),
            on_tax_failure: Some(on_tax_failure),
            tax_rate: Some(Some(decimal("5"))),
            ..OrganizationPatch::default()
        });
        world.customer("acme");
        Self { world, asked: RefCell::default() }
    }

    /// Does something again and again, asking for each rate that it needs, once.
    pub(super) fn asking<T>(
        &self,
        outcome: &TaxOutcome,
        work: impl Fn(&World) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut last = None;
        loop {
            match work(&self.world) {
                Err(Error::TaxRate(TaxNeed { customer, at, .. })) if last != Some(at) => {
                    last = Some(at);
                    self.asked.borrow_mut().push(at);
                    let answer = TaxAnswer { outcome: outcome.clone(), valid_until: None };
                    let note = |tx: &mut dyn Transaction, _| {
                        let question = tax_question(tx, customer, at)?.expect("a provider");
                        note_tax_quote(tx, &question, &answer)
                    };
                    self.world.on("acme", note).expect("noted");
                }
                done => return done,
            }
        }
    }

    pub(super) fn bill(&self, outcome: &TaxOutcome, until: OffsetDateTime) -> Result<(), Error> {
        self.world.store.set_now(until);
        let key = self.world.key("acme");
        self.asking(outcome, |world| world.on("acme", |tx, now| bill_customer(tx, key, now)))
    }

    pub(super) fn invoices(&self) -> Vec<Invoice> {
        let mut invoices = self.world.invoices("acme");
        invoices.sort_by_key(|invoice| invoice.issued_at);
        invoices
    }

    /// What the invoices come to, and who knew their rates.
    pub(super) fn amounts(&self) -> Vec<(String, Option<TaxProvider>)> {
        let tax_of = |invoice: &Invoice| {
            let adjustments = invoice.lines.iter().flat_map(|line| &line.adjustments);
            adjustments.clone().find_map(|adjustment| match &adjustment.basis {
                AdjustmentBasis::SalesTax { provider, .. } => *provider,
                AdjustmentBasis::PlanAdjustment { .. } => None,
            })
        };
        let shown = |invoice: &Invoice| (crate::decimal::plain(&invoice.amount), tax_of(invoice));
        self.invoices().iter().map(shown).collect()
    }
}

pub(super) fn rate(percent: &str) -> TaxOutcome {
    TaxOutcome::Rate(decimal(percent))
}

pub(super) fn address() -> Address {
    Address {
        city: "Bern".to_owned(),
        country: "CH".to_owned(),
        line1: "1 Street".to_owned(),
        line2: None,
        postal_code: "3000".to_owned(),
        state: None,
    }
}

pub(super) fn down() -> TaxOutcome {
    TaxOutcome::Failed("no answer in time".to_owned())
}

#[test]
fn each_invoice_has_the_rate_of_its_own_day() {
    let taxed = Taxed::new(&[Http], TaxFailure::Wait);
    taxed.bill(&rate("20"), datetime!(2026-02-01 0:00 UTC)).expect("nothing due");
    // Short months, and two at once.
    taxed.bill(&rate("21"), datetime!(2026-04-01 0:00 UTC)).expect("billed");
    let of = |amount: &str| (amount.to_owned(), Some(Http));
    assert_eq!(taxed.amounts(), [of("120"), of("121"), of("121")]);
    let asked = taxed.asked.borrow().clone();
    assert_eq!(asked.len(), 3, "once for each invoice: {asked:?}");
    let issued: Vec<_> = taxed.invoices().iter().map(|invoice| invoice.issued_at).collect();
    assert_eq!(asked, issued);
}

#[test]
fn what_was_done_before_an_unknown_rate_is_kept() {
    // Without a grace the renewal falls due at the same instant as the invoice.
    for grace in [30, 0] {
        let taxed = Taxed::new(&[Http], TaxFailure::Wait);
        taxed.world.set(&OrganizationPatch { invoice_grace_minutes: Some(grace), ..OrganizationPatch::default() });
        taxed.world.store.set_now(datetime!(2026-12-31 12:00 UTC));
        let key = taxed.world.key("acme");
        let go_on = |world: &World| world.on("acme", |tx, now| bill_customer_partly(tx, key, now, WORKER_WORK_MAX));
        let mut transactions = 0;
        while taxed.asking(&rate("20"), go_on).expect("billed") == Progress::OnTheWay {
            transactions += 1;
            assert_eq!(taxed.invoices().len(), transactions + 1, "grace {grace}: the invoice before is kept");
        }
        assert_eq!(taxed.invoices().len(), 12, "grace {grace}");
        assert_eq!(taxed.asked.borrow().len(), 12, "grace {grace}: once for each");
        let customer = taxed.world.on("acme", |tx, _| tx.customers().get(key)).expect("a customer");
        assert_eq!(customer.tax_quotes.len(), QUOTES_MAX, "answers are not collected for ever");
        assert!(!customer.catching_up, "grace {grace}: all is done");
    }
}

#[test]
fn a_provider_that_fails_is_waited_for_or_done_without() {
    #[rustfmt::skip]
    let cases = [
        // providers,            on failure,              the second invoice,                    why
        (vec![Http],             TaxFailure::Wait,        None,                                  "it waits"),
        (vec![Http],             TaxFailure::BillUntaxed, Some(("100".to_owned(), None)),        "it is untaxed"),
        (vec![Http, FlatRate],   TaxFailure::Wait,        Some(("105".to_owned(), Some(FlatRate))), "the next one knows a rate"),
    ];
    for (providers, on_failure, second, why) in cases {
        let taxed = Taxed::new(&providers, on_failure);
        let month = datetime!(2026-03-01 0:00 UTC);
        let billed = taxed.bill(&down(), month);
        assert_eq!(billed.is_ok(), second.is_some(), "{why}: {billed:?}");
        assert_eq!(taxed.amounts().get(1).cloned(), second, "{why}");
        let key = taxed.world.key("acme");
        if second.is_none() {
            let shown = billed.expect_err(why).to_string();
            assert_eq!(shown, "the tax provider had no answer: no answer in time");
            taxed.bill(&rate("19"), month).expect("it is back");
            assert_eq!(taxed.amounts()[1], ("119".to_owned(), Some(Http)), "{why}, and is billed then");
            assert_eq!(
                taxed.invoices()[1].issued_at,
                *taxed.asked.borrow().last().expect("asked"),
                "as of its own day"
            );
        }
        let customer = taxed.world.on("acme", |tx, _| tx.customers().get(key)).expect("a customer");
        assert!(
            customer.tax_quotes.iter().all(|quote| quote.outcome != down()),
            "{why}: what was done without is forgotten"
        );
    }
}

#[test]
fn an_answer_is_for_the_customer_as_it_was() {
    let taxed = Taxed::new(&[Http], TaxFailure::Wait);
    let key = taxed.world.key("acme");
    let quotes = || taxed.world.on("acme", |tx, _| tx.customers().get(key)).expect("a customer").tax_quotes.len();
    assert_eq!(quotes(), 1);
    let patch = CustomerPatch::of_fields(|fields| fields.name = Some("Acme".to_owned()));
    taxed.world.on("acme", |tx, now| update_customer(tx, key, &patch, now)).expect("renamed");
    assert_eq!(quotes(), 1, "the rate does not go by the name");
    let patch = CustomerPatch::of_fields(|fields| fields.shipping_address = Some(address()));
    taxed.world.on("acme", |tx, now| update_customer(tx, key, &patch, now)).expect("moved");
    assert_eq!(quotes(), 0, "but by where they are");
    // A preview shows tax too, as of now.
    let command = DraftInvoice { customer: "acme".parse().expect("an id"), include_next_period: true };
    let preview = |world: &World| world.on("acme", |tx, now| draft_invoice(tx, &command, now));
    let drafts = taxed.asking(&rate("8"), preview).expect("a preview");
    assert_eq!(drafts.invoices[0].amount, decimal("108"));
    assert_eq!(taxed.asked.borrow().last(), Some(&START));
}

#[test]
fn the_customers_list_goes_before_the_organizations() {
    let taxed = Taxed::new(&[FlatRate, Http], TaxFailure::Wait);
    assert_eq!(taxed.amounts(), [("105".to_owned(), Some(FlatRate))], "nobody else is asked");
    let key = taxed.world.key("acme");
    let patch = CustomerPatch::of_fields(|fields| fields.tax_providers = vec![Http]);
    taxed.world.on("acme", |tx, now| update_customer(tx, key, &patch, now)).expect("changed");
    taxed.bill(&rate("20"), datetime!(2026-03-01 0:00 UTC)).expect("billed");
    assert_eq!(taxed.amounts()[1], ("120".to_owned(), Some(Http)));
}

#[test]
fn a_provider_needs_an_address() {
    let world = World::at(START);
    world.customer("acme");
    let key = world.key("acme");
    let patch = CustomerPatch::of_fields(|fields| fields.tax_providers = vec![Http, Http]);
    let Err(Error::Fields(errors)) = world.on("acme", |tx, now| update_customer(tx, key, &patch, now)) else {
        panic!("taken")
    };
    let found: Vec<_> = errors.0.iter().map(|error| (error.attr.as_str(), error.code)).collect();
    let expected = [
        ("tax_providers.0", FieldCode::Invalid),
        ("tax_providers.1", FieldCode::Unique),
        ("tax_providers.1", FieldCode::Invalid),
    ];
    assert_eq!(found, expected);
}
