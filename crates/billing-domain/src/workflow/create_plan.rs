//! Creates a plan.

use time::OffsetDateTime;

use super::create_plan_version::create_checked;
use super::{CreatePlanVersion, NewPlanVersion};
use crate::error::{Error, FieldCode, FieldErrors};
use crate::id::PlanId;
use crate::period::PlanDuration;
use crate::plan::{ExternalLink, Plan, PlanVersion};
use crate::store::Transaction;
use crate::text;

/// A new plan.
#[derive(Clone, Debug)]
pub struct CreatePlan {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// How long its subscriptions last.
    pub duration: Option<PlanDuration>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its counterparts at payment providers.
    pub external_links: Vec<ExternalLink>,
    /// Its first version.
    pub initial_version: Option<NewPlanVersion>,
}

/// Most tags of one plan.
const TAGS_MAX: usize = 50;

/// Creates a plan, with its first version when one is given.
///
/// # Errors
/// Every bad field, those of the version below `initial_version`.
pub fn create_plan(
    tx: &mut dyn Transaction,
    command: &CreatePlan,
    now: OffsetDateTime,
) -> Result<(Plan, Vec<PlanVersion>), Error> {
    let plan = command.plan(tx.new_uuid().into(), now);
    command.faults(tx, now)?.finish(())?;
    tx.plans().insert(&plan)?;
    let Some(version) = &command.initial_version else { return Ok((plan, Vec::new())) };
    let version = CreatePlanVersion { plan: plan.id, version: version.clone() };
    let version = create_checked(tx, &version, now)?;
    Ok((plan, vec![version]))
}

impl CreatePlan {
    /// The plan without its version.
    pub(super) fn plan(&self, id: PlanId, now: OffsetDateTime) -> Plan {
        Plan {
            id,
            name: self.name.clone(),
            description: self.description.clone(),
            duration: self.duration,
            tags: self.tags.clone(),
            external_links: self.external_links.clone(),
            created_at: now,
            deleted_at: None,
        }
    }

    /// What is wrong with it.
    pub(super) fn faults(&self, tx: &mut dyn Transaction, now: OffsetDateTime) -> Result<FieldErrors, Error> {
        let mut errors = check_texts(&self.name, self.description.as_deref(), &self.tags, &self.external_links);
        if let Some(version) = &self.initial_version {
            errors.0.extend(version.faults(tx, now)?.under("initial_version").0);
        }
        Ok(errors)
    }
}

/// What is wrong with what a plan is called and how it is found.
pub(super) fn check_texts(
    name: &str,
    description: Option<&str>,
    tags: &[String],
    external_links: &[ExternalLink],
) -> FieldErrors {
    let mut errors = FieldErrors::default();
    errors.keep("plan_name", text::check(name, text::NAME_CHARACTERS_MAX));
    if let Some(description) = description {
        errors.keep("plan_description", text::check_length(description, text::DESCRIPTION_CHARACTERS_MAX));
    }
    if tags.len() > TAGS_MAX {
        errors.push("tags", FieldCode::ListTooLong, format!("At most {TAGS_MAX} tags are allowed."));
    }
    for (i, tag) in tags.iter().enumerate() {
        errors.keep(&format!("tags.{i}"), text::check(tag, text::NAME_CHARACTERS_MAX));
    }
    for (i, link) in external_links.iter().enumerate() {
        let attr = format!("external_links.{i}.external_plan_id");
        errors.keep(&attr, text::check(&link.external_plan_id, text::NAME_CHARACTERS_MAX));
    }
    errors
}
