//! Switches a subscription to another plan.

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Zero};
use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::{finish_due_of, process_due};
use super::create_subscription::{ChoiceFields, VersionChoice, check_units, choose, find_choice, prepaid_units};
use super::draft_lines::Part;
use super::issue_invoices::issue_parts;
use crate::catalog::Offer;
use crate::charge::{BillingRecord, Charge, ChargeRef, UsageBilling, carried_usage_at};
use crate::error::{Error, FieldCode, FieldError, FieldErrors, Refusal};
use crate::id::{CustomerKey, MetricId, SubscriptionId};
use crate::message::MessageType;
use crate::period::Period;
use crate::plan::{ChargeTiming, Component};
use crate::store::Transaction;
use crate::subscription::{CarriedUsage, InvoicingBehavior, Settled, Subscription, SwitchUsageBehavior};

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
/// the same end. Filters, metadata, quantity and prepaid units stay, and add-ons stay attached. The old fees come back
/// for the time that is left, the new ones are charged for it; what is charged in full is charged once. Usage that is
/// transferred goes on in the reset interval that was running, at the new prices, and what was billed of it by the old
/// ones comes back with it. The old subscription's id stops being valid.
///
/// # Errors
/// `switch_plan_id`: the same version, a plan of another duration or currency; the refusals of
/// [`choose_version`](crate::plan::choose_version); [`Refusal::AlreadyEnded`], [`Refusal::OverlappingPlans`],
/// [`Refusal::PrepaymentCantDetermineUnits`], [`Refusal::TestClockAdvancing`],
/// [`Refusal::CatchingUp`].
pub fn switch_plan(tx: &mut dyn Transaction, command: &SwitchPlan, now: OffsetDateTime) -> Result<Subscription, Error> {
    let mut account = Account::load(tx, command.customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    let id = finish_due_of(tx, &mut account, command.subscription, now)?;
    let old = tx.subscriptions().get(command.customer, id)?;
    account.check_open(&old, now)?;
    let old_offer = account.offer(tx, old.version)?;
    command.faults(tx)?.finish(())?;
    let chosen = choose(tx, &account, (command.version, ChoiceFields::SWITCH), &old_offer.currency.code, now)?;
    let offer = account.offer(tx, chosen.id)?;
    check(&old_offer, &offer)?;
    check_addons(tx, &mut account, &old, &offer, now)?;

    let from = now.max(old.period.start());
    let mut new = successor(tx, &old, (&old_offer, &offer), command, (from, now))?;
    new.carried_usage = carried_usage(&old, (&old_offer, &offer), command, from);
    let others = tx.subscriptions().list(command.customer)?;
    if others.iter().any(|other| other.id != old.id && other.overlaps(&new)) {
        return Err(Refusal::OverlappingPlans.into());
    }
    let fresh = offer.records_of(tx, &new)?;
    let switch = Switch { old: &old, old_offer: &old_offer, offer: &offer, command, from, now };
    switch.carry_out(tx, &mut account, new, fresh)
}

impl SwitchPlan {
    /// What is wrong whatever the subscription is.
    fn faults(&self, tx: &mut dyn Transaction) -> Result<FieldErrors, Error> {
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
        calendar: old.calendar_under(offer.plan.duration, offer.version.anchors),
        is_new: true,
        is_renewed: false,
        prepaid_units: units,
        carried_usage: BTreeMap::new(),
        settled: Settled::default(),
        created_at: now,
        ..old.clone()
    })
}

/// The reset intervals that go on under the new plan, when usage is transferred: those of metrics that both plans meter. Of
/// a component that the new plan does not prepay, prepaid units are settled with their usage instead.
fn carried_usage(
    old: &Subscription,
    (old_offer, offer): (&Offer, &Offer),
    command: &SwitchPlan,
    from: OffsetDateTime,
) -> BTreeMap<MetricId, CarriedUsage> {
    if command.usage_behavior == SwitchUsageBehavior::KeepSeparate {
        return BTreeMap::new();
    }
    let goes_on = |component: &&Component| {
        let next = offer.version.component_of(component.metric);
        next.is_some_and(|next| component.prepaid_charge.is_none() || next.prepaid_charge.is_some())
    };
    let components = old_offer.version.components.iter().filter(goes_on);
    components.filter_map(|component| Some((component.metric, carried_usage_at(component, old, from)?))).collect()
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
        new: Subscription,
        mut fresh: Vec<BillingRecord>,
    ) -> Result<Subscription, Error> {
        let (customer, id, now) = (self.command.customer, new.id, self.now);
        let mut settled = Vec::new();
        let mut full_fees = BigDecimal::zero();
        for mut record in tx.billing_records().list(customer, self.old.id)? {
            if record.period.contains(self.from)
                && let Some(Charge::Recurring(fee)) = self.old_offer.version.charge(record.charge)
            {
                full_fees += record.full_fee_so_far(fee, self.old, self.from);
            }
            if record.next_invoicing_at().is_none() {
                continue;
            }
            match self.heir(&record, &new, &mut fresh) {
                Some(heir) => self.hand_on(&mut record, heir),
                None => self.settle(&mut record, &fresh),
            }
            settled.push(record);
        }
        self.charge_full_fees_once(full_fees, &new, &mut fresh);
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
        account.untold.subscription(MessageType::SubscriptionSwitched, now, id);
        for mut addon in account.attached(self.old.id, now) {
            addon.parent = Some(id);
            tx.subscriptions().update(&addon)?;
            account.subscriptions.insert(addon.id, addon);
        }
        for record in settled {
            tx.billing_records().update(customer, &record)?;
            account.replace(record);
        }
        if self.command.invoicing_behavior == InvoicingBehavior::InvoiceNow {
            self.invoice(tx, account, id)?;
        }
        process_due(tx, account, now)?;
        tx.subscriptions().get(customer, id)
    }

    /// What is due of both plans now; of a component whose usage is billed later, its prepaid units.
    fn invoice(&self, tx: &mut dyn Transaction, account: &mut Account, new: SubscriptionId) -> Result<(), Error> {
        let (old, now) = (self.old.id, self.now);
        let due = |record: &BillingRecord| match record.next_invoicing_at() {
            Some(at) if at == now && [old, new].contains(&record.subscription) => Some(Part::All),
            Some(_) if record.subscription == old && record.prepaid.is_some() => Some(Part::Prepaid),
            _ => None,
        };
        issue_parts(tx, account, &due, now, now)
    }

    fn metric_of(&self, record: &BillingRecord) -> Option<MetricId> {
        match self.old_offer.version.charge(record.charge)? {
            Charge::Component(component) => Some(component.metric),
            Charge::Recurring(_) => None,
        }
    }

    /// The new record that goes on with the usage of an old one that runs.
    fn heir<'r>(
        &self,
        record: &BillingRecord,
        new: &Subscription,
        fresh: &'r mut [BillingRecord],
    ) -> Option<&'r mut BillingRecord> {
        let metric = self.metric_of(record).filter(|_| record.period.contains(self.from))?;
        let start = new.carried_usage.get(&metric)?.start;
        let charge = ChargeRef::Component(self.offer.version.component_of(metric)?.id);
        fresh.iter_mut().find(|record| record.charge == charge && record.period.start() == start)
    }

    /// Hands the usage of an old record on to its heir. What was billed of it comes back when the heir is billed, and prepaid
    /// units are settled with the invoice of the switch.
    fn hand_on(&self, record: &mut BillingRecord, heir: &mut BillingRecord) {
        if let (Some(Charge::Component(component)), Some(prepaid)) =
            (self.old_offer.version.charge(record.charge), heir.prepaid.as_mut())
        {
            let was_prepaid = record.prepaid.is_some();
            let paid = record.settle_prepaid(component, self.from);
            // Full units came back whole: the new ones are for all of the interval.
            if let Some(first) = prepaid.segments.first_mut().filter(|_| was_prepaid && paid.is_empty()) {
                first.period = Period::new(record.period.start(), first.period.end()).unwrap_or(first.period);
            }
            prepaid.segments.splice(0..0, paid);
        }
        let next = heir.invoicing_instants.iter().copied().find(|instant| *instant > self.from);
        record.period = record.period.cut_at(self.from);
        record.usage = UsageBilling::HandedOn;
        let is_later = self.command.invoicing_behavior == InvoicingBehavior::AddToNextInvoice;
        let at = match (record.prepaid.is_some(), record.billed.is_nothing()) {
            (false, true) => None,
            (true, _) if is_later => Some(self.old.period.end()),
            (true, true) => Some(self.from),
            (_, false) => next,
        };
        record.invoicing_instants = at.into_iter().collect();
    }

    /// Cuts an old record now and lets it be billed for the last time; one that neither began nor was billed is closed.
    fn settle(&self, record: &mut BillingRecord, fresh: &[BillingRecord]) {
        let is_open = record.period.start() < self.from || record.has_billed();
        let metric = self.metric_of(record);
        if let Some(Charge::Component(component)) = self.old_offer.version.charge(record.charge)
            && record.period.contains(self.from)
            && self.is_prepaid_from_here(component.metric, fresh)
        {
            record.settle_prepaid(component, self.from);
        }
        record.period = record.period.cut_at(self.from);
        record.reprice_prepaid();
        let waits = metric.is_some() && self.command.usage_behavior == SwitchUsageBehavior::KeepSeparate
            || self.command.invoicing_behavior == InvoicingBehavior::AddToNextInvoice;
        let at = if waits { self.old.period.end() } else { self.from };
        record.invoicing_instants = if is_open { vec![at] } else { Vec::new() };
    }

    /// Whether the new plan has units of a metric prepaid from the switch on.
    fn is_prepaid_from_here(&self, metric: MetricId, fresh: &[BillingRecord]) -> bool {
        let charge = self.offer.version.component_of(metric).map(|component| ChargeRef::Component(component.id));
        let mut here =
            fresh.iter().filter(|record| Some(record.charge) == charge && record.period.start() == self.from);
        here.any(|record| record.prepaid.is_some())
    }

    /// A `full` fee is charged once an interval: what those of the old plan came to is not charged again.
    fn charge_full_fees_once(&self, mut charged: BigDecimal, new: &Subscription, fresh: &mut [BillingRecord]) {
        let mut fees: Vec<_> = fresh.iter_mut().filter(|record| record.period.start() == self.from).collect();
        fees.retain(|fee| matches!(fee.charge, ChargeRef::Recurring(_)));
        for record in &mut fees {
            let Some(Charge::Recurring(fee)) = self.offer.version.charge(record.charge) else { continue };
            let already = record.full_fee_so_far(fee, new, record.period.end()).min(charged.clone());
            charged -= &already;
            record.charged_before_switch = already;
        }
        // What is left over still counts when this plan is switched in turn.
        if let Some(first) = fees.first_mut() {
            first.charged_before_switch += charged;
        }
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
