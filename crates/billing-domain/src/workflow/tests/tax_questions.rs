//! When an organization's own tax provider is to be asked, and when it is not.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use super::tax_providers::{START, Taxed, rate};
use crate::decimal::plain;
use crate::error::Error;
use crate::id::MetricId;
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::subscription::{Cancellation, FlatFeeBehavior, InvoicingBehavior, UsageBehavior};
use crate::tax::TaxFailure;
use crate::tax::TaxProvider::Http;
use crate::testing::world::{World, component, fee, subscription, tiers, version};
use crate::workflow::{
    CancelSubscription, CustomerPatch, NewPlanVersion, OrganizationPatch, bill_customer, cancel_subscription,
    update_customer,
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
