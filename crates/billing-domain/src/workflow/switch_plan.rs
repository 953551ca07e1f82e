//! Switches a subscription to another plan.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use super::account::{Account, Offer};
use super::bill_customer::process_due;
use super::create_subscription::{ChoiceFields, VersionChoice, check_units, choose, find_choice, prepaid_units};
use super::issue_invoices::issue_invoices;
use crate::charge::{BillingRecord, Charge, ChargeRef};
use crate::error::{Error, FieldCode, FieldError, FieldErrors, Refusal};
use crate::faults::Faults;
use crate::id::{CustomerKey, MetricId, SubscriptionId};
use crate::period::Period;
use crate::plan::ChargeTiming;
use crate::store::Transaction;
use crate::subscription::{InvoicingBehavior, Settled, Subscription, SwitchUsageBehavior};

/// Which subscription to switch, to what, and how.
#[derive(Clone, Debug)]
pub struct SwitchPlan {
    /// Whose.
    pub customer: CustomerKey,
    /// Which.
    pub subscription: SubscriptionId,
    /// The new plan or version.
    pub version: VersionChoice,
    /// When the difference is invoiced.
    pub invoicing_behavior: InvoicingBehavior,
    /// What becomes of the usage so far.
    pub usage_behavior: SwitchUsageBehavior,
    /// Units of prepaid components that the old plan did not have.
    pub prepaid_units: Vec<(MetricId, BigDecimal)>,
}

/// Puts a subscription to another plan in the place of one, from now (or its start, when that is still to come) to
/// the same end. Filters, metadata, quantity
/// and prepaid units stay, and add-ons stay attached. The old fees come back for the time that is left, the new ones are charged for it. The
/// old subscription's id stops being valid.
///
/// # Errors
/// `switch_plan_id`: the same version, a plan of another duration or currency; the refusals of
/// [`choose_version`](crate::plan::choose_version); [`Refusal::AlreadyEnded`], [`Refusal::OverlappingPlans`],
/// [`Refusal::PrepaymentCantDetermineUnits`], [`Refusal::TestClockAdvancing`].
pub fn switch_plan(tx: &mut dyn Transaction, command: &SwitchPlan, now: OffsetDateTime) -> Result<Subscription, Error> {
    let mut account = Account::load(tx, command.customer, now)?;
    account.refuse_while_advancing(tx)?;
    process_due(tx, &mut account, now)?;
    let old = tx.subscriptions().get(command.customer, command.subscription)?;
    old.check_open(now)?;
    let old_offer = account.offer(tx, old.version)?;
    command.faults(tx, now)?.finish(())?;
    let chosen = choose(tx, &account, (command.version, ChoiceFields::SWITCH), &old_offer.currency.code, now)?;
    let offer = account.offer(tx, chosen.id)?;
    check(&old_offer, &offer)?;
    check_addons(tx, &mut account, &old, &offer, now)?;

    let from = now.max(old.period.start());
    let new = successor(tx, &old, (&old_offer, &offer), command, (from, now))?;
    let others = tx.subscriptions().list(command.customer)?;
    if others.iter().any(|other| other.id != old.id && other.overlaps(&new)) {
        return Err(Refusal::OverlappingPlans.into());
    }
    let fresh = offer.records_of(tx, &new)?;
    let switch = Switch { old: &old, old_offer: &old_offer, offer: &offer, command, from, now };
    switch.carry_out(tx, &mut account, new, fresh)
}

impl Faults for SwitchPlan {
    /// What is wrong whatever the subscription is.
    fn faults(&self, tx: &mut dyn Transaction, _now: OffsetDateTime) -> Result<FieldErrors, Error> {
        let mut errors = FieldErrors::default();
        find_choice(tx, (self.version, ChoiceFields::SWITCH), &mut errors)?;
        check_units(&self.prepaid_units, &mut errors);
        Ok(errors)
    }
}

fn check(old: &Offer, new: &Offer) -> Result<(), FieldError> {
    let invalid = |detail| Err(FieldError::new("switch_plan_id", FieldCode::Invalid, detail));
    if old.version.id == new.version.id {
        return invalid("Cannot switch to the same plan.");
    }
    if old.plan.duration != new.plan.duration {
        return invalid("Cannot switch to a plan of another duration.");
    }
    if old.currency != new.currency {
        return invalid("Cannot switch to a plan in another currency.");
    }
    Ok(())
}

/// Add-ons stay attached, so the new plan must not meter what one of them does.
fn check_addons(
    tx: &mut dyn Transaction,
    account: &mut Account,
    old: &Subscription,
    new: &Offer,
    now: OffsetDateTime,
) -> Result<(), Error> {
    for addon in account.attached(old.id, now) {
        let addon = account.offer(tx, addon.version)?;
        if addon.version.shares_metric(&new.version) {
            let detail = format!("The plan meters what the add-on {} does.", addon.plan.name);
            return Err(FieldError::new("switch_plan_id", FieldCode::Invalid, detail).into());
        }
    }
    Ok(())
}

/// The subscription that takes the old one's place.
fn successor(
    tx: &mut dyn Transaction,
    old: &Subscription,
    (old_offer, offer): (&Offer, &Offer),
    command: &SwitchPlan,
    (from, now): (OffsetDateTime, OffsetDateTime),
) -> Result<Subscription, Error> {
    let given = prepaid_units(&command.prepaid_units, &offer.version);
    let given = given.map_err(|errors| errors.under("component_fixed_charges_initial_units"))?;
    let mut units = old.prepaid_units_under(&old_offer.version, &offer.version);
    units.extend(given);
    Ok(Subscription {
        id: tx.new_uuid().into(),
        plan: offer.plan.id,
        version: offer.version.id,
        period: Period::new(from, old.period.end()).map_err(|_| Refusal::AlreadyEnded)?,
        is_new: true,
        is_renewed: false,
        prepaid_units: units,
        carried_usage: std::collections::BTreeMap::new(),
        settled: Settled::default(),
        created_at: now,
        ..old.clone()
    })
}

/// One switch at work.
struct Switch<'s> {
    old: &'s Subscription,
    old_offer: &'s Offer,
    offer: &'s Offer,
    command: &'s SwitchPlan,
    /// When the one ends and the other begins: now, or the start that is still to come.
    from: OffsetDateTime,
    now: OffsetDateTime,
}

impl Switch<'_> {
    fn carry_out(
        &self,
        tx: &mut dyn Transaction,
        account: &mut Account,
        mut new: Subscription,
        mut fresh: Vec<BillingRecord>,
    ) -> Result<Subscription, Error> {
        let (customer, id, now) = (self.command.customer, new.id, self.now);
        let mut moved = Vec::new();
        let mut kept = Vec::new();
        for mut record in tx.billing_records().list(customer, self.old.id)? {
            if record.next_invoicing_at().is_none() {
                continue;
            }
            match self.heir(&record, &fresh) {
                Some(i) => {
                    let heir = fresh.remove(i);
                    if let Some(metric) = self.metric_of(&record) {
                        new.carried_usage.insert(metric, self.old.usage_start(metric, record.period.start()));
                    }
                    self.move_over(&mut record, heir);
                    moved.push(record);
                }
                None => {
                    self.settle(&mut record);
                    kept.push(record);
                }
            }
        }
        for record in &mut fresh {
            self.defer(record);
        }
        let mut replaced = self.old.clone();
        replaced.period = replaced.period.cut_at(self.from);
        replaced.auto_renew = false;
        replaced.replaced_by = Some(id);
        tx.subscriptions().update(&replaced)?;
        account.subscriptions.insert(replaced.id, replaced);
        account.add(tx, new, fresh)?;
        for mut addon in account.attached(self.old.id, now) {
            addon.parent = Some(id);
            tx.subscriptions().update(&addon)?;
            account.subscriptions.insert(addon.id, addon);
        }
        for record in moved.into_iter().chain(kept) {
            tx.billing_records().update(customer, &record)?;
            account.replace(record);
        }
        if self.command.invoicing_behavior == InvoicingBehavior::InvoiceNow {
            let both = [self.old.id, id];
            let due =
                |record: &BillingRecord| both.contains(&record.subscription) && record.next_invoicing_at() == Some(now);
            issue_invoices(tx, account, &due, now, now)?;
        }
        process_due(tx, account, now)?;
        tx.subscriptions().get(customer, id)
    }

    fn metric_of(&self, record: &BillingRecord) -> Option<MetricId> {
        match self.old_offer.version.charge(record.charge)? {
            Charge::Component(component) => Some(component.metric),
            Charge::Recurring(_) => None,
        }
    }

    /// Which of the new records goes on with the usage of an old one: the first of the same metric, when usage is
    /// transferred and the old record runs. Prepaid units of a component that the new plan does not prepay are
    /// settled with their usage instead.
    fn heir(&self, record: &BillingRecord, fresh: &[BillingRecord]) -> Option<usize> {
        let metric = self.metric_of(record)?;
        let is_carried = self.command.usage_behavior == SwitchUsageBehavior::TransferToNewSubscription
            && record.period.contains(self.from);
        let component = self.offer.version.component_of(metric).filter(|_| is_carried)?;
        if record.prepaid.is_some() && component.prepaid_charge.is_none() {
            return None;
        }
        let is_first =
            |own: &BillingRecord| own.charge == ChargeRef::Component(component.id) && own.period.start() == self.from;
        fresh.iter().position(is_first)
    }

    /// Lets an old record go on as a new one: it keeps its start, what was billed of it, and what its prepaid units cost
    /// until now.
    fn move_over(&self, record: &mut BillingRecord, heir: BillingRecord) {
        if let Some(Charge::Component(component)) = self.old_offer.version.charge(record.charge) {
            record.settle_prepaid(component, self.from);
        }
        record.subscription = heir.subscription;
        record.version = heir.version;
        record.charge = heir.charge;
        record.full = heir.full;
        if let Ok(period) = Period::new(record.period.start(), heir.period.end()) {
            record.period = period;
        }
        record.invoicing_instants = heir.invoicing_instants;
        match (&record.prepaid, heir.prepaid) {
            (Some(_), Some(planned)) => {
                if let Some(segment) = planned.segments.last() {
                    record.change_prepaid_units(&segment.units, self.from);
                }
            }
            (_, planned) => record.prepaid = planned,
        }
        self.defer(record);
    }

    /// Cuts an old record now and lets it be billed for the last time; one that neither began nor was billed is closed.
    fn settle(&self, record: &mut BillingRecord) {
        let is_open = record.period.start() < self.from || record.has_billed();
        record.period = record.period.cut_at(self.from);
        record.reprice_prepaid();
        let is_usage = self.metric_of(record).is_some();
        let waits = is_usage && self.command.usage_behavior == SwitchUsageBehavior::KeepSeparate
            || self.command.invoicing_behavior == InvoicingBehavior::AddToNextInvoice;
        let at = if waits { self.old.period.end() } else { self.from };
        record.invoicing_instants = if is_open { vec![at] } else { Vec::new() };
    }

    /// With the next invoice, what would be billed in advance now is billed at the end of the period.
    fn defer(&self, record: &mut BillingRecord) {
        if self.command.invoicing_behavior == InvoicingBehavior::InvoiceNow {
            return;
        }
        let is_due = record.next_invoicing_at() == Some(self.from);
        let in_advance = match self.offer.version.charge(record.charge) {
            Some(Charge::Recurring(charge)) => charge.timing == ChargeTiming::InAdvance,
            Some(Charge::Component(_)) => record.prepaid.is_some(),
            None => false,
        };
        if is_due && in_advance {
            let end = self.old.period.end();
            record.invoicing_instants.retain(|instant| *instant > self.from);
            if !record.invoicing_instants.contains(&end) {
                record.invoicing_instants.push(end);
            }
        }
    }
}
