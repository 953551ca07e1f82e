//! Creates a plan.

use time::OffsetDateTime;

use super::{CreatePlanVersion, NewPlanVersion, create_plan_version};
use crate::error::{Error, FieldCode, FieldErrors};
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
    let plan = Plan {
        id: tx.new_uuid().into(),
        name: command.name.clone(),
        description: command.description.clone(),
        duration: command.duration,
        tags: command.tags.clone(),
        external_links: command.external_links.clone(),
        created_at: now,
        deleted_at: None,
    };
    check_texts(&plan)?;
    tx.plans().insert(&plan)?;
    let Some(version) = &command.initial_version else { return Ok((plan, Vec::new())) };
    let version = CreatePlanVersion { plan: plan.id, version: version.clone() };
    let version = create_plan_version(tx, &version, now).map_err(|error| match error {
        Error::Fields(FieldErrors(errors)) => {
            FieldErrors(errors.into_iter().map(|error| error.under("initial_version")).collect()).into()
        }
        other => other,
    })?;
    Ok((plan, vec![version]))
}

/// Checks what a plan is called and how it is found.
///
/// # Errors
/// Every bad field.
pub(super) fn check_texts(command: &Plan) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::default();
    errors.keep("plan_name", text::check(&command.name, text::NAME_CHARACTERS_MAX));
    if let Some(description) = &command.description {
        errors.keep("plan_description", text::check_length(description, text::DESCRIPTION_CHARACTERS_MAX));
    }
    if command.tags.len() > TAGS_MAX {
        errors.push("tags", FieldCode::ListTooLong, format!("At most {TAGS_MAX} tags are allowed."));
    }
    for (i, tag) in command.tags.iter().enumerate() {
        errors.keep(&format!("tags.{i}"), text::check(tag, text::NAME_CHARACTERS_MAX));
    }
    for (i, link) in command.external_links.iter().enumerate() {
        let attr = format!("external_links.{i}.external_plan_id");
        errors.keep(&attr, text::check(&link.external_plan_id, text::NAME_CHARACTERS_MAX));
    }
    errors.finish(())
}
