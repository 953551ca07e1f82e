//! Changes and deletes plans.

use time::OffsetDateTime;

use super::create_plan::check_texts;
use crate::error::{Error, FieldCode, Refusal};
use crate::id::PlanId;
use crate::period::PlanDuration;
use crate::plan::{ExternalLink, Plan};
use crate::store::Transaction;

/// What to change of a plan; `None` leaves it as it is.
#[derive(Clone, Debug)]
pub struct UpdatePlan {
    /// Which.
    pub plan: PlanId,
    /// Its name.
    pub name: Option<String>,
    /// What it is; the inner `None` clears it.
    pub description: Option<Option<String>>,
    /// Must be the duration that it has: periods are counted by it.
    pub duration: Option<Option<PlanDuration>>,
    /// Its tags.
    pub tags: Option<Vec<String>>,
    /// Its counterparts at payment providers.
    pub external_links: Option<Vec<ExternalLink>>,
}

/// Changes what a plan is called and how it is found.
///
/// # Errors
/// [`Error::NotFound`]; every bad field, another `plan_duration` among them.
pub fn update_plan(tx: &mut dyn Transaction, command: &UpdatePlan) -> Result<Plan, Error> {
    let mut plan = tx.plans().get(command.plan)?;
    let command = command.clone();
    let is_other = command.duration.is_some_and(|duration| duration != plan.duration);
    plan.name = command.name.unwrap_or(plan.name);
    plan.description = command.description.unwrap_or(plan.description);
    plan.tags = command.tags.unwrap_or(plan.tags);
    plan.external_links = command.external_links.unwrap_or(plan.external_links);
    let mut errors = check_texts(&plan.name, plan.description.as_deref(), &plan.tags, &plan.external_links);
    if is_other {
        errors.push("plan_duration", FieldCode::Invalid, "The duration of a plan cannot be changed.");
    }
    errors.finish(())?;
    tx.plans().update(&plan)?;
    Ok(plan)
}

/// Deletes a plan and its versions. What was billed by them stays.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::PlanInUse`].
pub fn delete_plan(tx: &mut dyn Transaction, id: PlanId, now: OffsetDateTime) -> Result<Plan, Error> {
    let mut plan = tx.plans().get(id)?;
    if tx.plans().is_held(id, None, now)? {
        return Err(Refusal::PlanInUse.into());
    }
    for mut version in tx.plans().list_versions(Some(id))? {
        version.deleted_at = Some(now);
        tx.plans().update_version(&version)?;
    }
    plan.deleted_at = Some(now);
    tx.plans().update(&plan)?;
    Ok(plan)
}
