//! Creates an add-on.

use time::OffsetDateTime;

use super::NewPlanVersion;
use super::create_plan_version::build;
use crate::addon::{self, Addon, AddonTerms};
use crate::error::{Error, FieldErrors};
use crate::id::AddonId;
use crate::store::Transaction;
use crate::text;

/// A new add-on.
#[derive(Clone, Debug)]
pub struct CreateAddon {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// How often it is charged, and when that is invoiced.
    pub terms: AddonTerms,
    /// What it charges and grants.
    pub content: NewPlanVersion,
}

/// Creates an add-on.
///
/// # Errors
/// Every bad field.
pub fn create_addon(tx: &mut dyn Transaction, command: &CreateAddon, now: OffsetDateTime) -> Result<Addon, Error> {
    let id = AddonId::from(tx.new_uuid());
    let mut errors = FieldErrors::default();
    errors.keep("addon_name", text::check(&command.name, text::NAME_CHARACTERS_MAX));
    if let Some(description) = &command.description {
        errors.keep("addon_description", text::check_length(description, text::DESCRIPTION_CHARACTERS_MAX));
    }
    let content = match build(tx, addon::plan_of(id), &command.content, &[], now) {
        Err(Error::Fields(faults)) => errors.keep_all("", Err(faults)),
        content => Some(content?),
    };
    let Some(content) = content else { return Err(errors.into()) };
    let addon = errors.finish(Addon {
        id,
        name: command.name.clone(),
        description: command.description.clone(),
        terms: command.terms,
        content,
        created_at: now,
    })?;
    tx.addons().insert(&addon)?;
    Ok(addon)
}
