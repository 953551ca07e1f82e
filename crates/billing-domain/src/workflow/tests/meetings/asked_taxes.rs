//! Rates of an organization's own provider, which change from day to day, and what else happens to a subscription.

use time::macros::datetime;

use crate::decimal::plain;
use crate::error::Error;
use crate::id::SubscriptionId;
use crate::invoice::{Invoice, PaymentStatus};
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::subscription::{InvoicingBehavior, SwitchUsageBehavior};
use crate::tax::TaxFailure;
use crate::tax::TaxProvider::Http;
use crate::testing::world::{World, fee, version};
use crate::workflow::tests::tax_providers::{Taxed, down, rate};
use crate::workflow::{SwitchPlan, VersionChoice, switch_plan, void_invoice};

/// Of each line what it is before and after tax.
fn lines(invoice: &Invoice) -> Vec<(String, String)> {
    invoice.lines.iter().map(|line| (plain(&line.base), plain(&line.amount))).collect()
}

fn shown(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(base, amount)| ((*base).to_owned(), (*amount).to_owned())).collect()
}

#[test]
fn a_switch_and_a_void_go_by_the_rates_of_their_days() {
    let taxed = Taxed::new(&[Http], TaxFailure::Wait);
    let dearer = taxed.world.plan(Some(PlanDuration::Monthly), version(vec![fee("200", InAdvance)], vec![]));
    // Half of the 28 days of the period are over.
    taxed.world.store.set_now(datetime!(2026-02-14 0:00 UTC));
    let switch = |world: &World| -> Result<SubscriptionId, Error> {
        let command = SwitchPlan {
            customer: world.key("acme"),
            subscription: world.subscriptions("acme")[0].id,
            version: VersionChoice::Plan(dearer),
            invoicing_behavior: InvoicingBehavior::InvoiceNow,
            usage_behavior: SwitchUsageBehavior::TransferToNewSubscription,
            prepaid_units: vec![],
        };
        world.on("acme", |tx, now| switch_plan(tx, &command, now)).map(|switched| switched.id)
    };
    assert!(matches!(taxed.asking(&down(), switch), Err(Error::TaxRate(_))), "what is charged waits");
    taxed.asking(&rate("10"), switch).expect("switched");
    let invoice = taxed.invoices()[1].clone();
    let mut found = lines(&invoice);
    found.sort();
    assert_eq!(found, shown(&[("-50", "-60"), ("100", "110")]), "back as it was billed, charged as it is taxed now");

    // Nobody is asked for a void, and what it gave back is given back again, with the tax that it had.
    let voided = taxed.world.on("acme", |tx, now| void_invoice(tx, taxed.world.key("acme"), invoice.id, now));
    assert_eq!(voided.expect("voided").payment_status, PaymentStatus::Voided);
    taxed.bill(&rate("5"), datetime!(2026-02-28 0:30 UTC)).expect("renewed at the end of the month");
    let last = taxed.invoices().last().cloned().expect("an invoice");
    assert_eq!(
        lines(&last),
        shown(&[("-50", "-60"), ("200", "210")]),
        "given back again, and the new period at its rate"
    );
}
