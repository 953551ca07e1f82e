//! Changes how many units of a component are paid for in advance.

use bigdecimal::{BigDecimal, Signed};
use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::{finish_due_of, process_due};
use super::draft_lines::Part;
use super::issue_invoices::issue_parts;
use crate::charge::{BillingRecord, ChargeRef};
use crate::error::{Error, FieldCode, FieldError, FieldErrors};
use crate::id::{CustomerKey, MetricId, SubscriptionId};
use crate::message::MessageType;
use crate::plan::{Component, PlanVersion};
use crate::store::Transaction;
use crate::subscription::Subscription;

/// Which units, and how many from now on.
#[derive(Clone, Debug)]
pub struct ChangePrepaidUnits {
    /// Whose.
    pub customer: CustomerKey,
    /// Of which subscription.
    pub subscription: SubscriptionId,
    /// Of which component: that of this metric.
    pub metric: MetricId,
    /// How many.
    pub units: BigDecimal,
    /// Whether more units are invoiced at once; otherwise with the next invoice.
    pub invoice_now: bool,
}

impl ChangePrepaidUnits {
    /// What is wrong whatever the subscription is.
    fn check(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if self.units.is_negative() {
            errors.push("units", FieldCode::MinValue, "Ensure this value is greater than or equal to 0.");
        }
        errors.finish(())
    }
}

/// Changes prepaid units from now on. More units are invoiced, fewer come back as a credit at once; only the
/// difference is billed, usage of the running time is not, and late usage of earlier time comes along as on every invoice.
/// As many units as there are change nothing.
///
/// # Errors
/// [`Error::NotFound`]; a metric without prepaid component, negative units; [`Subscription::check_open`];
/// [`TestClockAdvancing`](crate::Refusal::TestClockAdvancing),
/// [`CatchingUp`](crate::Refusal::CatchingUp).
pub fn change_prepaid_units(
    tx: &mut dyn Transaction,
    command: &ChangePrepaidUnits,
    now: OffsetDateTime,
) -> Result<Subscription, Error> {
    command.check()?;
    let mut account = Account::load(tx, command.customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    let id = finish_due_of(tx, &mut account, command.subscription, now)?;
    let mut subscription = tx.subscriptions().get(command.customer, id)?;
    account.check_open(&subscription, now)?;
    tx.metrics().get(command.metric)?;
    let offer = account.offer(tx, subscription.version)?;
    let component = prepaid_component(&offer.version, command.metric)?;
    let before = subscription.prepaid_units_of(component);
    if before.as_ref() == Some(&command.units) {
        return Ok(subscription);
    }
    subscription.prepaid_units.insert(command.metric, command.units.clone());
    tx.subscriptions().update(&subscription)?;
    account.subscriptions.insert(subscription.id, subscription.clone());

    let is_fewer = before.is_some_and(|before| command.units < before);
    let mut changed = account.records.clone();
    changed.retain(|record| {
        record.subscription == id && record.charge == ChargeRef::Component(component.id) && record.period.end() > now
    });
    for mut record in changed {
        record.change_prepaid_units(&command.units, now);
        let changed = record.id;
        let is_invoiced = record.period.contains(now) && (is_fewer || command.invoice_now);
        tx.billing_records().update(command.customer, &record)?;
        account.replace(record);
        if is_invoiced {
            let due = |record: &BillingRecord| (record.id == changed).then_some(Part::Prepaid);
            issue_parts(tx, &mut account, &due, now, now)?;
        }
    }
    account.untold.subscription(MessageType::SubscriptionChanged, now, id);
    process_due(tx, &mut account, now)?;
    tx.subscriptions().get(command.customer, id)
}

fn prepaid_component(version: &PlanVersion, metric: MetricId) -> Result<&Component, FieldError> {
    let invalid = |detail| FieldError::new("metric_id", FieldCode::Invalid, detail);
    let component = version.component_of(metric);
    let component = component.ok_or_else(|| invalid("The plan has no component of this metric."))?;
    match component.prepaid_charge {
        Some(_) => Ok(component),
        None => Err(invalid("The plan's component of this metric has no prepaid units.")),
    }
}
