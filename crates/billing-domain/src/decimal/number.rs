//! `#[serde(with = "decimal::number")]`: out as a JSON number with all its digits, in from a JSON number or
//! numeric text of at most [`STORED_CHARACTERS_MAX`](super::STORED_CHARACTERS_MAX) characters.

use bigdecimal::BigDecimal;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Writes the number in plain notation.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(value: &BigDecimal, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::Number::from_string_unchecked(super::plain(value)).serialize(serializer)
}

/// Reads the number without passing through a float.
///
/// # Errors
/// When it is neither a number nor numeric text, or is too long.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BigDecimal, D::Error> {
    // Through `Value`: it alone takes every form in which serde hands over an exact number.
    let value = serde_json::Value::deserialize(deserializer)?;
    from_value(&value).ok_or_else(|| de::Error::custom(super::DecimalError::NotANumber))
}

pub(super) fn from_value(value: &serde_json::Value) -> Option<BigDecimal> {
    match value {
        serde_json::Value::Number(number) => stored(number.as_str()),
        serde_json::Value::String(text) => stored(text),
        _ => None,
    }
}

fn stored(text: &str) -> Option<BigDecimal> {
    super::bounded(text, super::STORED_CHARACTERS_MAX, super::STORED_CHARACTERS_MAX as i64)
}
