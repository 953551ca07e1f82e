//! When an organization's own tax provider is to be asked, and when it is not.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use super::tax_providers::{START, Taxed, address, down, rate};
use crate::decimal::plain;
use crate::error::Error;
use crate::id::MetricId;
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
#[cfg(feature = "service")]
use crate::store::BillingQueue;
use crate::subscription::{Cancellation, FlatFeeBehavior, InvoicingBehavior, UsageBehavior};
use crate::tax::TaxProvider::{FlatRate, Http};
use crate::tax::{TaxFailure, TaxOutcome};
use crate::testing::world::{World, component, decimal, fee, filters, subscription, tiers, version};
use crate::workflow::{
    CancelSubscription, CustomerPatch, NewPlanVersion, NewTaxHook, NotePayment, OrganizationPatch, Progress,
    ReversePayment, TaxAnswer, WORKER_WORK_MAX, bill_customer, bill_customer_partly, cancel_subscription, note_payment,
    note_tax_quote, reverse_payment, tax_question, update_customer,
};

/// A while behind the end of the first period.
const NEXT: OffsetDateTime = datetime!(2026-02-28 0:30 UTC);

/// A customer with a subscription to what `make` makes of a metric of calls, which bills nothing at its start.
fn subscribed(auto_renew: bool, make: impl FnOnce(MetricId) -> NewPlanVersion) -> Taxed {
    let taxed = Taxed::without_subscription(&[Http], TaxFailure::Wait);
    let calls = taxed.world.metric("call", None).id;
    let plan = taxed.world.plan(Some(PlanDuration::Monthly), make(calls));
    let mut command = subscription("acme", plan, START);
    command.auto_renew = auto_renew;
    taxed.world.subscribe(&command).expect("subscribed, and nobody asked");
    taxed
}

fn bill(world: &World, until: OffsetDateTime) -> Result<(), Error> {
    world.store.set_now(until);
    let key = world.key("acme");
    world.on("acme", |tx, now| bill_customer(tx, key, now))
}

fn calls(world: &World, count: u32) {
    world.track_many("acme", "call", START + Duration::days(3), count);
}

#[test]
fn nobody_is_asked_for_a_rate_that_nothing_is_taxed_at() {
    let free = |calls| version(vec![], vec![component(calls, tiers(&[("0", "9", "free"), ("9", "", "1")]))]);
    let taxed = subscribed(true, free);
    calls(&taxed.world, 5);
    bill(&taxed.world, NEXT).expect("usage that costs nothing");
    assert_eq!(taxed.invoices().len(), 1, "which an invoice says");
    calls(&taxed.world, 6);
    let late = bill(&taxed.world, datetime!(2026-03-31 0:30 UTC));
    assert!(
        matches!(late, Err(Error::TaxRate(_))),
        "what comes late and does cost something was never taxed: {late:?}"
    );

    let taxed = subscribed(true, |_| version(vec![fee("0", InAdvance)], vec![]));
    bill(&taxed.world, datetime!(2026-06-01 0:00 UTC)).expect("months of fees of nothing");
    assert_eq!(taxed.asked.borrow().len(), 0);
}

#[test]
fn what_comes_late_has_the_rate_of_what_was_billed_and_nobody_is_asked() {
    let by_tens = |calls| version(vec![], vec![component(calls, tiers(&[("0", "", "10")]))]);
    let taxed = subscribed(false, by_tens);
    calls(&taxed.world, 1);
    taxed.bill(&rate("20"), NEXT).expect("billed");
    calls(&taxed.world, 2);
    bill(&taxed.world, NEXT + Duration::days(40)).expect("late events alone");
    let amounts: Vec<_> = taxed.amounts().into_iter().map(|(amount, _)| amount).collect();
    assert_eq!(amounts, ["12", "24"], "of 10 and of 20");
    assert_eq!(taxed.asked.borrow().len(), 1, "for the first");
}

#[test]
fn what_comes_back_waits_for_nobody() {
    let taxed = Taxed::new(&[Http], TaxFailure::Wait);
    taxed.world.store.set_now(datetime!(2026-02-14 0:00 UTC));
    let command = CancelSubscription {
        customer: taxed.world.key("acme"),
        subscriptions: vec![taxed.world.subscriptions("acme")[0].id],
        cancellation: Cancellation {
            flat_fee_behavior: Some(FlatFeeBehavior::Refund),
            usage_behavior: UsageBehavior::BillFull,
        },
        invoicing_behavior: InvoicingBehavior::InvoiceNow,
    };
    taxed.world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
    let lines = &taxed.invoices()[1].lines;
    assert_eq!(plain(&lines[0].amount), "-120", "as it was billed");
    assert_eq!(taxed.asked.borrow().len(), 1, "when it was");
}

#[test]
fn a_call_bills_what_is_due_first_and_asks_for_each_rate_of_it() {
    for grace in [30, 0] {
        let taxed = Taxed::new(&[Http], TaxFailure::Wait);
        taxed.world.set(&OrganizationPatch { invoice_grace_minutes: Some(grace), ..OrganizationPatch::default() });
        // The billing run has not come by for three months.
        taxed.world.store.set_now(datetime!(2026-05-15 0:00 UTC));
        let key = taxed.world.key("acme");
        let patch = CustomerPatch::of_fields(|fields| fields.name = Some("Acme".to_owned()));
        let rename = |world: &World| world.on("acme", |tx, now| update_customer(tx, key, &patch, now));
        assert!(matches!(rename(&taxed.world), Err(Error::TaxRate(_))), "grace {grace}: asked for, and not given up");
        let renamed = taxed.asking(&rate("21"), rename).expect("renamed");
        assert!(!renamed.catching_up, "grace {grace}");
        let amounts: Vec<_> = taxed.amounts().into_iter().map(|(amount, _)| amount).collect();
        assert_eq!(amounts, ["120", "121", "121", "121"], "grace {grace}");
        assert_eq!(taxed.asked.borrow().len(), 4, "grace {grace}: once for each");
    }
}

#[test]
fn an_answer_about_what_has_changed_meanwhile_is_none() {
    type Change = fn(&Taxed);
    let move_customer: Change = |taxed| {
        let key = taxed.world.key("acme");
        let patch = CustomerPatch::of_fields(|fields| fields.billing_address = Some(address()));
        taxed.world.on("acme", |tx, now| update_customer(tx, key, &patch, now)).expect("moved");
    };
    let move_provider: Change = |taxed| {
        let hook =
            NewTaxHook { url: Some("https://other.example".to_owned()), secret: None, fresh_secret: "s".to_owned() };
        taxed.world.set(&OrganizationPatch { tax_hook: Some(Some(hook)), ..OrganizationPatch::default() });
    };
    let close_provider: Change = |taxed| {
        let patch = OrganizationPatch {
            tax_hook: Some(None),
            tax_providers: Some(vec![FlatRate]),
            ..OrganizationPatch::default()
        };
        taxed.world.set(&patch);
    };
    let rename: Change = |taxed| {
        let key = taxed.world.key("acme");
        let patch = CustomerPatch::of_fields(|fields| fields.name = Some("Acme".to_owned()));
        taxed.world.on("acme", |tx, now| update_customer(tx, key, &patch, now)).expect("renamed");
    };
    #[rustfmt::skip]
    let cases = [
        // meanwhile,     is noted, why
        (move_customer,   false,    "it is about the old address"),
        (move_provider,   false,    "somebody else is asked now"),
        (close_provider,  false,    "nobody is asked any more"),
        (rename,          true,     "no rate goes by a name"),
    ];
    for (change, is_noted, why) in cases {
        for outcome in [rate("20"), down()] {
            let taxed = Taxed::without_subscription(&[Http], TaxFailure::BillUntaxed);
            let key = taxed.world.key("acme");
            let question = taxed.world.on("acme", |tx, now| tax_question(tx, key, now)).expect("read").expect("asked");
            change(&taxed);
            let answer = TaxAnswer { outcome: outcome.clone(), valid_until: None };
            taxed.world.on("acme", |tx, _| note_tax_quote(tx, &question, &answer)).expect("no fault");
            assert_eq!(!quotes(&taxed).is_empty(), is_noted, "{why}: {outcome:?}");
        }
    }
}

fn quotes(taxed: &Taxed) -> Vec<TaxOutcome> {
    let key = taxed.world.key("acme");
    let customer = taxed.world.on("acme", |tx, _| tx.customers().get(key)).expect("a customer");
    customer.tax_quotes.into_iter().map(|quote| quote.outcome).collect()
}

#[test]
fn a_failure_counts_for_what_is_billed_without_and_is_forgotten_with_it() {
    let patch = CustomerPatch::of_fields(|fields| fields.name = Some("Acme".to_owned()));
    let taxed = Taxed::new(&[Http, FlatRate], TaxFailure::BillUntaxed);
    // Two invoices in one transaction, each with a question of its own; and then what the call is about.
    taxed.world.store.set_now(datetime!(2026-04-15 0:00 UTC));
    let key = taxed.world.key("acme");
    taxed.asking(&down(), |world| world.on("acme", |tx, now| update_customer(tx, key, &patch, now))).expect("renamed");
    assert_eq!(taxed.amounts()[1..], [("105".to_owned(), Some(FlatRate)), ("105".to_owned(), Some(FlatRate))]);
    assert_eq!(taxed.asked.borrow().len(), 3, "each is asked for once: {:?}", taxed.asked.borrow());
    assert_eq!(quotes(&taxed), [rate("20")], "and only the answer is left");
    // The same day again, on a clock that stands: it is asked, and not believed to be down for good.
    let plan = taxed.world.plan(Some(PlanDuration::Monthly), version(vec![fee("7", InAdvance)], vec![]));
    for (outcome, amount) in [(down(), "7.35"), (rate("10"), "7.7"), (down(), "7.7")] {
        let mut command = subscription("acme", plan, datetime!(2026-04-15 0:00 UTC));
        command.filters = filters(&[("place", &taxed.invoices().len().to_string())]);
        taxed.asking(&outcome, |world| world.subscribe(&command)).expect("subscribed");
        assert_eq!(taxed.amounts().last().map(|(found, _)| found.as_str()), Some(amount), "{outcome:?}");
    }
}

#[test]
fn a_customer_may_still_name_a_provider_that_is_gone() {
    #[rustfmt::skip]
    let cases = [
        // on failure,             the next invoice, why
        (TaxFailure::Wait,         None,             "it waits: nobody said that there is no tax"),
        (TaxFailure::BillUntaxed,  Some("100"),      "the organization wants it untaxed then"),
    ];
    for (on_failure, expected, why) in cases {
        let taxed = Taxed::new(&[Http], on_failure);
        let key = taxed.world.key("acme");
        let change = |patch: &CustomerPatch| taxed.world.on("acme", |tx, now| update_customer(tx, key, patch, now));
        change(&CustomerPatch::of_fields(|fields| fields.tax_providers = vec![Http])).expect("named");
        let gone =
            OrganizationPatch { tax_hook: Some(None), tax_providers: Some(vec![]), ..OrganizationPatch::default() };
        taxed.world.set(&gone);
        change(&CustomerPatch::of_fields(|fields| fields.name = Some("Acme".to_owned()))).expect("renamed");
        let billed = bill(&taxed.world, NEXT);
        match expected {
            Some(amount) => assert_eq!(taxed.amounts()[1], (amount.to_owned(), None), "{why}"),
            None => {
                let shown = billed.expect_err(why).to_string();
                assert_eq!(shown, "the tax provider had no answer: the organization has no tax_provider_url", "{why}");
                change(&CustomerPatch::of_fields(|fields| fields.name = None))
                    .expect("the customer does not wait with it");
                assert_eq!(taxed.amounts().len(), 1, "{why}: it still does");
            }
        }
        change(&CustomerPatch::of_fields(|fields| fields.tax_providers = vec![FlatRate])).expect("another list");
        bill(&taxed.world, NEXT).expect("billed");
        let named = change(&CustomerPatch::of_fields(|fields| fields.tax_providers = vec![FlatRate, Http]));
        assert!(matches!(named, Err(Error::Fields(_))), "but nobody names it anew: {named:?}");
    }
}

/// How many customers come up for billing, for an hour.
#[cfg(feature = "service")]
fn leased(world: &World) -> usize {
    let hour = Duration::hours(1);
    let due = world.store.lease_due(9, hour, None, &[]).expect("leased").len();
    due + world.store.lease_catching_up(9, hour, None, &[]).expect("leased").len()
}

#[test]
fn an_address_that_the_provider_does_not_like_can_be_mended() {
    let refused = TaxOutcome::Failed("it answered with status 422".to_owned());
    // Before the billing run has come by, and after it has made the renewal and left the invoice.
    for has_run in [false, true] {
        let taxed = Taxed::new(&[Http], TaxFailure::Wait);
        taxed.world.store.set_now(NEXT);
        let key = taxed.world.key("acme");
        let run = |world: &World| world.on("acme", |tx, now| bill_customer_partly(tx, key, now, WORKER_WORK_MAX));
        if has_run {
            assert_eq!(taxed.asking(&refused, run), Ok(Progress::OnTheWay), "it is renewed");
            run(&taxed.world).expect_err("and its invoice waits");
            #[cfg(feature = "service")]
            assert_eq!(leased(&taxed.world), 1, "for an hour");
        }
        let patch = CustomerPatch::of_fields(|fields| fields.billing_address = Some(address()));
        let move_ = |world: &World| world.on("acme", |tx, now| update_customer(tx, key, &patch, now));
        taxed.asking(&refused, move_).expect("moved");
        #[cfg(feature = "service")]
        assert_eq!(leased(&taxed.world), 1, "{has_run}: the invoice is tried at once");
        assert_eq!(taxed.amounts().len(), 1, "{has_run}: nothing was billed by the old address");
        let running =
            taxed.world.subscriptions("acme").into_iter().any(|subscription| subscription.period.contains(NEXT));
        assert!(running, "{has_run}: whoever waits for an invoice has what they pay for");
        assert_eq!(taxed.asking(&rate("8"), run), Ok(Progress::Arrived));
        assert_eq!(taxed.amounts()[1], ("108".to_owned(), Some(Http)), "{has_run}: by the new one");
        let customer = taxed.world.on("acme", |tx, _| tx.customers().get(key)).expect("a customer");
        assert!(!customer.catching_up, "{has_run}");
    }
}

#[test]
fn a_payment_waits_for_no_tax_rate_but_what_becomes_credit_does() {
    let taxed = Taxed::new(&[Http], TaxFailure::Wait);
    let first = taxed.invoices()[0].id;
    let customer = taxed.world.key("acme");
    let pay = |amount: &str| {
        let amount = decimal(amount);
        let command = NotePayment { customer, invoice: first, amount, at: None, method: None, reference: None };
        taxed.world.on("acme", |tx, now| note_payment(tx, &command, now)).map(|(_, payment)| payment.id)
    };
    taxed.world.store.set_now(NEXT);
    let part = pay("20").expect("a part");
    assert!(matches!(pay("101"), Err(Error::TaxRate(_))), "1 of it is a credit for the next invoice");
    pay("100").expect("the rest");
    let command = ReversePayment { customer, invoice: first, payment: part, at: None, reason: None };
    taxed.world.on("acme", |tx, now| reverse_payment(tx, &command, now)).expect("a part bounced");
    assert_eq!((taxed.invoices().len(), taxed.asked.borrow().len()), (1, 1), "nothing was billed, and nobody asked");
    taxed.bill(&rate("21"), NEXT).expect("billed");
    assert_eq!(taxed.amounts().pop().map(|(amount, _)| amount).as_deref(), Some("121"), "the run comes by as ever");
}
