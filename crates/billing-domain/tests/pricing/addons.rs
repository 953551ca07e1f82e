use bigdecimal::Zero;
use billing_domain::BigDecimal;
use billing_domain::addon::{AddonTerms, BillingFrequency, InvoiceWhen};
use billing_domain::decimal::plain;
use billing_domain::period::PlanDuration;
use billing_domain::plan::{ChargeBehavior, ChargeTiming};
use billing_domain::subscription::{Cancellation, FlatFeeBehavior, InvoicingBehavior, UsageBehavior};
use billing_domain::testing::world::{World, fee, subscription, version};
use billing_domain::workflow::{AttachedAddon, CancelAddon, cancel_addon};

use super::{instant, shown, table};

const ONCE: &str = "| add-on | charge_behavior | fee | quantity | attached | cancelled | invoices | credit left |";
pub const TABLES: [&str; 1] = [ONCE];

/// The one of `all` that is written `text`.
fn one_of<T: Copy>(all: &[T], as_str: impl Fn(T) -> &'static str, text: &str) -> T {
    *all.iter().find(|one| as_str(**one) == text).unwrap_or_else(|| panic!("{text} is no choice"))
}

#[test]
fn what_is_charged_once_is_charged_in_full_unless_it_is_prorated() {
    for row in table(ONCE) {
        let world = World::at(instant("2026-04-01"));
        let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), Vec::new()));
        let customer = world.customer("acme");
        let parent = world.subscribe(&subscription("acme", plan, instant("2026-04-01"))).expect("subscribed").id;

        let billing_frequency = one_of(BillingFrequency::ALL, BillingFrequency::as_str, &row[0]);
        let mut charge = fee(&row[2], ChargeTiming::InAdvance);
        charge.behavior = match row[1].as_str() {
            "" => billing_frequency.default_behavior(),
            said => one_of(ChargeBehavior::ALL, ChargeBehavior::as_str, said),
        };
        let terms = AddonTerms { billing_frequency, invoice_when: InvoiceWhen::InvoiceOnAttach };
        let addon = world.addon(terms, version(vec![charge], Vec::new())).id;
        world.advance("acme", instant(&row[4]));
        world.attach("acme", parent, addon, row[3].parse().expect("a quantity")).expect("attached");

        if !row[5].is_empty() {
            let (at, flat_fee) = row[5].split_once(' ').unwrap_or((&row[5], ""));
            let flat_fee_behavior =
                (!flat_fee.is_empty()).then(|| one_of(FlatFeeBehavior::ALL, FlatFeeBehavior::as_str, flat_fee));
            world.advance("acme", instant(at));
            let command = CancelAddon {
                customer,
                parent,
                addon: AttachedAddon::Addon(addon),
                cancellation: Cancellation { flat_fee_behavior, usage_behavior: UsageBehavior::BillFull },
                invoicing_behavior: InvoicingBehavior::InvoiceNow,
            };
            world.on("acme", |tx, now| cancel_addon(tx, &command, now)).expect("cancelled");
        }
        world.advance("acme", instant("2026-05-15"));
        let billed: Vec<BigDecimal> = world
            .invoices("acme")
            .into_iter()
            .map(|invoice| invoice.amount)
            .filter(|amount| !amount.is_zero())
            .collect();
        let ledgers = world.on("acme", |tx, _| tx.credits().list(customer)).expect("credits");
        let left: BigDecimal = ledgers.iter().map(|ledger| ledger.remaining()).sum();
        assert_eq!((shown(&billed), plain(&left)), (row[6].clone(), row[7].clone()), "{row:?}");
    }
}
