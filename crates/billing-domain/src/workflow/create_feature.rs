//! Creates a feature.

use crate::error::{Error, FieldErrors, Refusal};
use crate::plan::Feature;
use crate::store::Transaction;
use crate::text;

/// A new feature.
#[derive(Clone, Debug)]
pub struct CreateFeature {
    /// Its name, unique in the organization.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
}

/// Creates a feature.
///
/// # Errors
/// Bad text; [`Refusal::DuplicateResource`] when a feature has the name already.
pub fn create_feature(tx: &mut dyn Transaction, command: &CreateFeature) -> Result<Feature, Error> {
    command.check()?;
    if tx.features().list()?.iter().any(|other| other.name == command.name) {
        return Err(Refusal::DuplicateResource("A feature with this name already exists").into());
    }
    let feature =
        Feature { id: tx.new_uuid().into(), name: command.name.clone(), description: command.description.clone() };
    tx.features().insert(&feature)?;
    Ok(feature)
}

impl CreateFeature {
    fn check(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        errors.keep("feature_name", text::check(&self.name, text::NAME_CHARACTERS_MAX));
        if let Some(description) = &self.description {
            errors.keep("feature_description", text::check_length(description, text::DESCRIPTION_CHARACTERS_MAX));
        }
        errors.finish(())
    }
}
