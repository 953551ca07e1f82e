//! Finds a feature by its name.

use crate::error::{Error, Noun};
use crate::plan::Feature;
use crate::store::Transaction;

/// The organization's feature of this name.
///
/// # Errors
/// `feature_name` does not exist.
pub fn find_feature(tx: &mut dyn Transaction, name: &str) -> Result<Feature, Error> {
    let found = tx.features().list()?.into_iter().find(|feature| feature.name == name);
    found.ok_or_else(|| Error::NotFound(Noun::Feature).at_field("feature_name"))
}
