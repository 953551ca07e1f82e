//! Where two features meet: renewals and month ends, switches, cancellations, voids, adjustments and tax, with amounts
//! computed by hand. `docs/pricing.md` has the rules.

mod adjusted_switches;
mod asked_taxes;
mod cancelled_fees;
mod issue_dates;
mod month_ends;
mod reissues;
mod running_intervals;
mod voids;

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use crate::credit::CreditLedger;
use crate::decimal::plain;
use crate::error::Error;
use crate::id::{InvoiceId, MetricId, PlanId, SubscriptionId};
use crate::invoice::{Invoice, PaymentStatus};
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::{PriceAdjustment, PriceAdjustmentKind};
use crate::subscription::{
    Cancellation, FlatFeeBehavior, InvoicingBehavior, Subscription, SwitchUsageBehavior, UsageBehavior,
};
use crate::testing::world::{World, decimal, subscription};
use crate::workflow::{
    CancelSubscription, ChangePrepaidUnits, NewPlanVersion, OrganizationPatch, SwitchPlan, VersionChoice,
    cancel_subscription, change_prepaid_units, switch_plan, void_invoice,
};

fn every(count: u32, unit: IntervalUnit) -> Option<Interval> {
    Some(Interval::new(unit, count).expect("an interval"))
}

fn adjusted(mut version: NewPlanVersion, kind: PriceAdjustmentKind, amount: &str) -> NewPlanVersion {
    version.price_adjustment =
        Some(PriceAdjustment { name: "deal".to_owned(), description: None, kind, amount: decimal(amount) });
    version
}

/// The customer `acme` and one subscription, followed over switches.
struct Life {
    world: World,
    id: SubscriptionId,
}

impl Life {
    fn begin(world: World, plan: PlanId, start: OffsetDateTime) -> Self {
        world.customer("acme");
        let id = world.subscribe(&subscription("acme", plan, start)).expect("subscribed").id;
        Self { world, id }
    }

    /// A subscription of a month of the version, from now.
    fn monthly(start: OffsetDateTime, version: impl FnOnce(&World) -> NewPlanVersion) -> Self {
        let world = World::at(start);
        let version = version(&world);
        let plan = world.plan(Some(PlanDuration::Monthly), version);
        Self::begin(world, plan, start)
    }

    fn at(&self, now: OffsetDateTime) {
        self.world.advance("acme", now);
    }

    fn plan(&self, version: NewPlanVersion) -> PlanId {
        self.world.plan(Some(PlanDuration::Monthly), version)
    }

    fn tax(&self, percent: &str) {
        let tax_rate = Some(Some(decimal(percent)));
        self.world.set(&OrganizationPatch { tax_rate, ..OrganizationPatch::default() });
    }

    fn switch(&mut self, plan: PlanId) -> Subscription {
        self.switch_by(plan, InvoicingBehavior::InvoiceNow, SwitchUsageBehavior::TransferToNewSubscription)
    }

    fn switch_by(
        &mut self,
        plan: PlanId,
        invoicing_behavior: InvoicingBehavior,
        usage_behavior: SwitchUsageBehavior,
    ) -> Subscription {
        let command = SwitchPlan {
            customer: self.world.key("acme"),
            subscription: self.id,
            version: VersionChoice::Plan(plan),
            invoicing_behavior,
            usage_behavior,
            prepaid_units: Vec::new(),
        };
        let new = self.world.on("acme", |tx, now| switch_plan(tx, &command, now)).expect("switched");
        self.id = new.id;
        new
    }

    fn cancel(&self, flat_fee_behavior: Option<FlatFeeBehavior>) {
        self.cancel_by(flat_fee_behavior, UsageBehavior::BillFull, InvoicingBehavior::InvoiceNow);
    }

    fn cancel_by(
        &self,
        flat_fee_behavior: Option<FlatFeeBehavior>,
        usage_behavior: UsageBehavior,
        invoicing_behavior: InvoicingBehavior,
    ) {
        let command = CancelSubscription {
            customer: self.world.key("acme"),
            subscriptions: vec![self.id],
            cancellation: Cancellation { flat_fee_behavior, usage_behavior },
            invoicing_behavior,
        };
        self.world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
    }

    fn units(&self, metric: MetricId, units: &str) {
        let (customer, units) = (self.world.key("acme"), decimal(units));
        let command = ChangePrepaidUnits { customer, subscription: self.id, metric, units, invoice_now: true };
        self.world.on("acme", |tx, now| change_prepaid_units(tx, &command, now)).expect("changed");
    }

    fn void(&self, id: InvoiceId) -> Result<Invoice, Error> {
        let customer = self.world.key("acme");
        self.world.on("acme", |tx, now| void_invoice(tx, customer, id, now))
    }

    fn void_last(&self) {
        let last = self.world.invoices("acme").pop().expect("an invoice");
        self.void(last.id).expect("voided");
    }

    /// What each invoice came to before credits, oldest first; one that was voided is in brackets.
    fn invoices(&self) -> Vec<String> {
        let shown = |invoice: &Invoice| {
            let charges = invoice.lines.iter().filter(|line| line.subscription.is_some());
            let sum = plain(&charges.map(|line| &line.amount).sum::<BigDecimal>());
            if invoice.payment_status == PaymentStatus::Voided { format!("({sum})") } else { sum }
        };
        self.world.invoices("acme").iter().map(shown).collect()
    }

    /// What the customer pays in all: everything that was charged and taken back, less what voids forgave.
    fn paid(&self) -> String {
        let invoices = self.world.invoices("acme");
        let standing = invoices.iter().filter(|invoice| invoice.payment_status != PaymentStatus::Voided);
        let charges = standing.flat_map(|invoice| &invoice.lines).filter(|line| line.subscription.is_some());
        plain(&charges.map(|line| &line.amount).sum::<BigDecimal>())
    }

    fn credits(&self) -> Vec<CreditLedger> {
        let key = self.world.key("acme");
        self.world.on("acme", |tx, _| tx.credits().list(key)).expect("credits")
    }

    /// What credits have left.
    fn credit(&self) -> String {
        plain(&self.credits().iter().map(CreditLedger::remaining).sum::<BigDecimal>())
    }
}
