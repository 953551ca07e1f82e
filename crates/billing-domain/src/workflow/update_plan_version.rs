//! Changes and deletes plan versions.

use time::OffsetDateTime;

use super::create_plan_version::{MakeActiveType, check_targets, take_places, tell_published};
use crate::customer::CustomerId;
use crate::error::{Error, FieldCode, FieldErrors, Noun, Refusal};
use crate::faults::look_up;
use crate::id::{CustomerKey, PlanId, PlanVersionId};
use crate::plan::{PlanVersion, TargetCustomer};
use crate::store::Transaction;
use crate::text;

/// What to change of a version; `None` leaves it as it is, an inner `None` clears it.
#[derive(Clone, Debug)]
pub struct UpdatePlanVersion {
    /// Which.
    pub version: PlanVersionId,
    /// A name in place of the plan's.
    pub localized_name: Option<Option<String>>,
    /// From when on it can be subscribed to.
    pub active_from: Option<Option<OffsetDateTime>>,
    /// Until when it can be subscribed to.
    pub active_to: Option<Option<OffsetDateTime>>,
    /// The version of the same plan that its subscriptions renew to; its own id: they stay.
    pub replace_with: Option<Option<PlanVersionId>>,
    /// The plan that its subscriptions renew to.
    pub transition_to: Option<Option<PlanId>>,
    /// The customers it is made for; none: it is public.
    pub target_customers: Option<Vec<CustomerId>>,
    /// What becomes of the versions whose place it takes, when it gets its first instant.
    pub make_active_type: MakeActiveType,
}

/// Changes who a version is for, when it can be subscribed to, and what its subscriptions renew to. What it charges
/// never changes. One that had not started takes the place of others as a new one does.
///
/// # Errors
/// [`Error::NotFound`]; every bad field.
pub fn update_plan_version(
    tx: &mut dyn Transaction,
    command: &UpdatePlanVersion,
    now: OffsetDateTime,
) -> Result<PlanVersion, Error> {
    let before = find(tx, command.version)?;
    command.faults(tx, &before)?.finish(())?;
    let mut version = before.clone();
    let command = command.clone();
    version.localized_name = command.localized_name.unwrap_or(version.localized_name);
    version.active_from = command.active_from.unwrap_or(version.active_from);
    version.active_to = command.active_to.unwrap_or(version.active_to);
    version.replace_with = command.replace_with.unwrap_or(version.replace_with);
    version.transition_to = command.transition_to.unwrap_or(version.transition_to);
    if let Some(targets) = command.target_customers {
        let organization = tx.organization();
        let target = |id: CustomerId| TargetCustomer { key: CustomerKey::derive(organization, &id), id };
        version.target_customers = targets.into_iter().map(target).collect();
    }
    tx.plans().update_version(&version)?;
    if before.is_not_started(now) && version.active_from != before.active_from {
        let version = take_places(tx, version, command.make_active_type, now)?;
        tell_published(tx, &version, now)?;
        return Ok(version);
    }
    Ok(version)
}

/// Deletes a version. What was billed by it stays; versions that it replaces keep their subscriptions.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::PlanInUse`].
pub fn delete_plan_version(
    tx: &mut dyn Transaction,
    id: PlanVersionId,
    now: OffsetDateTime,
) -> Result<PlanVersion, Error> {
    let mut version = find(tx, id)?;
    if tx.plans().is_held(version.plan, Some(id), now)? {
        return Err(Refusal::PlanInUse.into());
    }
    version.deleted_at = Some(now);
    tx.plans().update_version(&version)?;
    Ok(version)
}

/// A version of a plan, not of an add-on, that was not deleted.
fn find(tx: &mut dyn Transaction, id: PlanVersionId) -> Result<PlanVersion, Error> {
    let version = tx.plans().get_version(id)?;
    let is_there = version.deleted_at.is_none() && tx.plans().get(version.plan).is_ok();
    if is_there { Ok(version) } else { Err(Error::NotFound(Noun::PlanVersion)) }
}

impl UpdatePlanVersion {
    /// What is wrong with this change of `version`.
    fn faults(&self, tx: &mut dyn Transaction, version: &PlanVersion) -> Result<FieldErrors, Error> {
        let mut errors = FieldErrors::default();
        if let Some(Some(name)) = &self.localized_name {
            errors.keep("localized_name", text::check(name, text::NAME_CHARACTERS_MAX));
        }
        if let Some(other) = self.replace_with.flatten() {
            let found = find(tx, other);
            let other = look_up(&mut errors, "replace_with", found)?;
            if other.is_some_and(|other| other.plan != version.plan || other.currency_code != version.currency_code) {
                let detail = "Only another version of the same plan in the same currency can replace it.";
                errors.push("replace_with", FieldCode::Invalid, detail);
            }
        }
        if let Some(plan) = self.transition_to.flatten() {
            look_up(&mut errors, "transition_to", tx.plans().get(plan))?;
        }
        check_targets(tx, self.target_customers.as_deref().unwrap_or_default(), &mut errors)?;
        if self.transition_to.flatten() == Some(version.plan) {
            errors.push("transition_to", FieldCode::Invalid, "It is the version's own plan; use replace_with.");
        }
        let (from, to) = (self.active_from.unwrap_or(version.active_from), self.active_to.unwrap_or(version.active_to));
        errors.0.extend(PlanVersion::faults_of(&[], &[], (from, to)).0);
        Ok(errors)
    }
}
