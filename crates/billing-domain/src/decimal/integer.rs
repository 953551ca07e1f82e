//! `#[serde(with = "decimal::integer")]` for a whole number inside a tagged or flattened value.
//!
//! There serde buffers first, and a number that keeps every digit is then handed over in a form that the
//! integer types do not take by themselves.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Writes the whole number.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T: Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.serialize(serializer)
}

/// Reads the whole number.
///
/// # Errors
/// When it is not a whole number or does not fit the type.
pub fn deserialize<'de, T: FromStr, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    number.as_str().parse().map_err(|_| de::Error::custom("expected a whole number"))
}
