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
    command.faults(tx, now)?.finish(())?;
    let addon = Addon {
        id,
        name: command.name.clone(),
        description: command.description.clone(),
        terms: command.terms,
        content: build(tx, addon::plan_of(id), &command.content, &[], now)?,
        created_at: now,
    };
    tx.addons().insert(&addon)?;
    Ok(addon)
}

impl CreateAddon {
    fn faults(&self, tx: &mut dyn Transaction, now: OffsetDateTime) -> Result<FieldErrors, Error> {
        let mut errors = FieldErrors::default();
        errors.keep("addon_name", text::check(&self.name, text::NAME_CHARACTERS_MAX));
        if let Some(description) = &self.description {
            errors.keep("addon_description", text::check_length(description, text::DESCRIPTION_CHARACTERS_MAX));
        }
        errors.0.extend(self.content.faults(tx, now)?.0);
        Ok(errors)
    }
}
