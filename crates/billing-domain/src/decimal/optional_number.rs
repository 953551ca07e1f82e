//! [`number`](super::number) for an optional number; null is none. Add `#[serde(default)]` where the field may be missing.

use bigdecimal::BigDecimal;
use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes the number in plain notation, or null.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(value: &Option<BigDecimal>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => super::number::serialize(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// Reads a number or null.
///
/// # Errors
/// As [`super::number::deserialize`].
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BigDecimal>, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Null => Ok(None),
        value => super::number::from_value(&value)
            .map(Some)
            .ok_or_else(|| de::Error::custom(super::DecimalError::NotANumber)),
    }
}
