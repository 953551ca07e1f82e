//! Attaches an add-on to a subscription.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::{finish_due_of, process_due};
use super::issue_invoices::issue_invoices;
use crate::addon::{self, BillingFrequency};
use crate::catalog::Offer;
use crate::charge::{BillingRecord, count_records};
use crate::error::{Error, FieldCode, FieldError, FieldErrors, Noun, Refusal};
use crate::faults::look_up;
use crate::id::{AddonId, CustomerKey, PlanVersionId, SubscriptionId};
use crate::period::Period;
use crate::store::Transaction;
use crate::subscription::{Settled, Subscription};

/// What to attach to which subscription.
#[derive(Clone, Debug)]
pub struct AttachAddon {
    /// Whose.
    pub customer: CustomerKey,
    /// To which.
    pub parent: SubscriptionId,
    /// What.
    pub addon: AddonChoice,
    /// Multiplies fees; usage is not multiplied.
    pub quantity: u32,
    /// The caller's own.
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

/// How the add-on is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddonChoice {
    /// By its id.
    Addon(AddonId),
    /// By the id of its content.
    Version(PlanVersionId),
}

impl AddonChoice {
    fn attr(self) -> &'static str {
        match self {
            Self::Addon(_) => "addon_id",
            Self::Version(_) => "addon_version_id",
        }
    }
}

/// Attaches an add-on from now (or the subscription's start, when that is still to come) to the subscription's end,
/// with its filters. What it charges in advance is invoiced at once, unless the add-on waits for the period's end.
///
/// # Errors
/// [`Error::NotFound`] for the subscription; an unknown add-on, one in another currency, one that meters what the plan
/// or another add-on does, a `quantity` of 0; [`Refusal::AlreadyEnded`], [`Refusal::PrepaymentCantDetermineUnits`],
/// [`Refusal::TestClockAdvancing`],
/// [`Refusal::CatchingUp`].
pub fn attach_addon(
    tx: &mut dyn Transaction,
    command: &AttachAddon,
    now: OffsetDateTime,
) -> Result<Subscription, Error> {
    command.faults(tx)?.finish(())?;
    let mut account = Account::load(tx, command.customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    let parent = finish_due_of(tx, &mut account, command.parent, now)?;
    let parent = tx.subscriptions().get(command.customer, parent)?;
    account.check_open(&parent, now)?;
    let version = find(tx, command.addon)?;
    let offer = account.offer(tx, version)?;
    check(tx, &mut account, &parent, &offer, command.addon.attr(), now)?;

    let attached = build(tx, command, &parent, &offer, now)?;
    let (id, start) = (attached.id, attached.period.start());
    let records = offer.records_of(tx, &attached)?;
    account.add(tx, attached, records)?;
    account.untold.addon(now, id);
    let due =
        |record: &BillingRecord| record.subscription == id && record.next_invoicing_at() == Some(start) && start <= now;
    issue_invoices(tx, &mut account, &due, start, now)?;
    process_due(tx, &mut account, now)?;
    tx.subscriptions().get(command.customer, id)
}

impl AttachAddon {
    /// What is wrong whatever the subscription is.
    fn faults(&self, tx: &mut dyn Transaction) -> Result<FieldErrors, Error> {
        let mut errors = FieldErrors::default();
        let found = find(tx, self.addon);
        look_up(&mut errors, self.addon.attr(), found)?;
        if self.quantity == 0 {
            errors.push("quantity", FieldCode::MinValue, "Ensure this value is greater than or equal to 1.");
        }
        Ok(errors)
    }
}

fn find(tx: &mut dyn Transaction, choice: AddonChoice) -> Result<PlanVersionId, Error> {
    let found = match choice {
        AddonChoice::Addon(id) => tx.addons().get(id).map(|addon| addon.content.id),
        AddonChoice::Version(id) => tx.plans().get_version(id).and_then(|version| {
            tx.addons().get(addon::addon_of(version.plan))?;
            Ok(id)
        }),
    };
    found.map_err(|error| match error {
        Error::NotFound(_) => Error::unknown_reference(choice.attr(), Noun::Addon),
        other => other,
    })
}

/// Refuses an add-on that does not fit the subscription and what is attached to it.
fn check(
    tx: &mut dyn Transaction,
    account: &mut Account,
    parent: &Subscription,
    addon: &Offer,
    attr: &str,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let invalid = |detail: String| Err(FieldError::new(attr, FieldCode::Invalid, detail).into());
    let base = account.offer(tx, parent.version)?;
    if base.currency != addon.currency {
        return invalid("The add-on is priced in another currency than the plan.".to_owned());
    }
    let mut beside = vec![base];
    for other in account.attached(parent.id, now) {
        beside.push(account.offer(tx, other.version)?);
    }
    match beside.iter().find(|other| other.version.shares_metric(&addon.version)) {
        Some(other) => invalid(format!("The add-on meters what {} does.", other.plan.name)),
        None => Ok(()),
    }
}

fn build(
    tx: &mut dyn Transaction,
    command: &AttachAddon,
    parent: &Subscription,
    offer: &Offer,
    now: OffsetDateTime,
) -> Result<Subscription, Error> {
    let recurs = offer.addon.is_some_and(|terms| terms.billing_frequency == BillingFrequency::Recurring);
    let start = now.max(parent.period.start());
    let attached = Subscription {
        id: tx.new_uuid().into(),
        plan: offer.plan.id,
        version: offer.version.id,
        period: Period::new(start, parent.period.end()).map_err(|_| Refusal::AlreadyEnded)?,
        auto_renew: recurs && parent.auto_renew,
        is_renewed: false,
        is_new: true,
        quantity: command.quantity,
        metadata: command.metadata.clone(),
        prepaid_units: BTreeMap::new(),
        carried_usage: BTreeMap::new(),
        parent: Some(parent.id),
        settled: Settled::default(),
        created_at: now,
        ..parent.clone()
    };
    if count_records(&offer.version, &attached) > BillingRecord::PER_SUBSCRIPTION_MAX {
        let detail = "The subscription's period holds too many reset intervals of the add-on.";
        return Err(FieldError::new(command.addon.attr(), FieldCode::Invalid, detail).into());
    }
    Ok(attached)
}
