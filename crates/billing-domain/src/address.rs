//! Postal addresses: the seller's and the customers'.

use serde::{Deserialize, Serialize};

use crate::error::{FieldCode, FieldErrors};
use crate::{country, text};

/// A postal address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// City, district, suburb, town or village.
    pub city: String,
    /// Two-letter ISO 3166-1 alpha-2 code.
    pub country: String,
    /// First line.
    pub line1: String,
    /// Second line.
    pub line2: Option<String>,
    /// Postal code.
    pub postal_code: String,
    /// State, county, province or region.
    pub state: Option<String>,
}

impl Address {
    /// Checks every part.
    ///
    /// # Errors
    /// Every bad part, under its name.
    pub fn check(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        let optional = |text: &Option<String>| text.clone().unwrap_or_default();
        errors.keep("city", text::check(&self.city, text::NAME_CHARACTERS_MAX));
        errors.keep("line1", text::check(&self.line1, text::NAME_CHARACTERS_MAX));
        errors.keep("line2", text::check_length(&optional(&self.line2), text::NAME_CHARACTERS_MAX));
        errors.keep("postal_code", text::check(&self.postal_code, text::NAME_CHARACTERS_MAX));
        errors.keep("state", text::check_length(&optional(&self.state), text::NAME_CHARACTERS_MAX));
        if !country::is_known(&self.country) {
            errors.push("country", FieldCode::InvalidChoice, country::unknown(&self.country));
        }
        errors.finish(())
    }
}
