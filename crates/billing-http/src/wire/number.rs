//! Exact numbers in and out of JSON.

use bigdecimal::BigDecimal;
use billing_domain::decimal::{self, DecimalError};
use billing_domain::{FieldCode, FieldErrors};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::body::{FromJson, incorrect_type, one};
use super::schema::{Described, Schema, Schemas, decimal as decimal_of};

/// An exact decimal: a JSON number or numeric text in, a JSON number with all its digits out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(pub BigDecimal);

impl FromJson for Number {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        let read = match &value {
            Value::Number(number) => decimal::parse(number.as_str()),
            Value::String(text) => decimal::parse(text),
            other => return Err(incorrect_type("a number", other)),
        };
        read.map(Self).map_err(|error| {
            let code = match error {
                DecimalError::NotANumber => FieldCode::Invalid,
                DecimalError::TooManyIntegerDigits => FieldCode::MaxWholeDigits,
                DecimalError::TooManyDecimals { .. } => FieldCode::MaxDecimalPlaces,
            };
            one(code, error.to_string())
        })
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        decimal::number::serialize(&self.0, serializer)
    }
}

impl Described for Number {
    fn describe(schemas: &mut Schemas) -> Schema {
        decimal_of(schemas.direction())
    }
}

impl From<&BigDecimal> for Number {
    fn from(value: &BigDecimal) -> Self {
        Self(value.clone())
    }
}

impl From<BigDecimal> for Number {
    fn from(value: BigDecimal) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_digit_and_refuses_bombs() {
        #[rustfmt::skip]
        let cases = [
            // json,                               read and written,                  why
            ("12.50",                              Ok("12.5"),                        "no zeros at the end"),
            ("\"12.50\"",                          Ok("12.5"),                        "numeric text"),
            ("12345678901234567890.123456789012345", Ok("12345678901234567890.123456789012345"), "35 digits, none lost"),
            ("1e-7",                               Ok("0.0000001"),                   "plain notation out"),
            ("1e999999999",                        Err("max_whole_digits"),           "an exponent bomb"),
            ("1e-999999999",                       Err("max_decimal_places"),         "the same, the other way"),
            ("\"abc\"",                            Err("invalid"),                    "not a number"),
            ("\"\"",                               Err("invalid"),                    "nothing"),
            ("\"NaN\"",                            Err("invalid"),                    "no number either"),
            ("true",                               Err("incorrect_type"),             "a flag"),
        ];
        for (json, expected, why) in cases {
            let value = serde_json::from_str(json).expect("json");
            let read = Number::from_json(value).map_err(|errors| errors.0[0].code.as_str());
            let written = read.map(|number| serde_json::to_string(&number).expect("json"));
            assert_eq!(written, expected.map(str::to_owned), "{json}: {why}");
        }
    }
}
