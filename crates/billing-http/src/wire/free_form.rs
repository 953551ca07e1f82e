//! Free-form JSON that is kept and given back as it came.

use billing_domain::{FieldCode, FieldErrors, decimal};
use serde_json::{Map, Value};

use super::body::{FromJson, incorrect_type, one};
use super::schema::{Described, Schema, Schemas};

/// Largest free-form object, in bytes of JSON.
const BYTES_MAX: usize = 16 * 1024;

/// A JSON object of the caller's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FreeForm(pub Map<String, Value>);

impl FromJson for FreeForm {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        let Value::Object(map) = value else { return Err(incorrect_type("an object", &value)) };
        if serde_json::to_string(&map).map_or(0, |text| text.len()) > BYTES_MAX {
            return Err(one(FieldCode::MaxLength, format!("Ensure this object has no more than {BYTES_MAX} bytes.")));
        }
        if map.values().any(holds_unkeepable_number) {
            return Err(one(FieldCode::MaxWholeDigits, "A number in this object has too many digits to be kept."));
        }
        Ok(Self(map))
    }
}

/// Whether a number is larger than a database keeps exactly.
fn holds_unkeepable_number(value: &Value) -> bool {
    match value {
        Value::Number(number) => decimal::parse_property(number.as_str()).is_none(),
        Value::Array(values) => values.iter().any(holds_unkeepable_number),
        Value::Object(fields) => fields.values().any(holds_unkeepable_number),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

impl Described for FreeForm {
    fn describe(schemas: &mut Schemas) -> Schema {
        Map::<String, Value>::describe(schemas)
    }
}
