//! Text, flags, whole numbers, ids.

use std::str::FromStr;

use bigdecimal::{BigDecimal, Zero};
use billing_domain::customer::CustomerId;
use billing_domain::id::{
    AddonId, AddonSubscriptionId, AddonVersionId, ApprovalId, AuditEntryId, BooksAuditId, CreditId, CreditNoteId,
    EventCorrectionId, FeatureId, InvoiceId, JobId, LineId, MessageId, MetricId, OneOffLineId, OrganizationId,
    PaymentId, PlanId, PlanVersionId, SubscriptionId, TestClockId, UsageAlertId, UserId, WebhookEndpointId,
};
use billing_domain::{FieldCode, FieldErrors};
use serde_json::Value;
use utoipa::openapi::schema::Type;

use super::body::{FromJson, incorrect_type, one, quoted};
use super::number::Number;
use super::schema::{Described, Schema, Schemas, plain};

impl FromJson for String {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(incorrect_type("a string", &other)),
        }
    }
}

impl FromJson for Value {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        Ok(value)
    }
}

impl FromJson for bool {
    /// Also reads `"true"` and `"false"`: query parameters are text.
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        match value {
            Value::Bool(flag) => Ok(flag),
            Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Value::String(_) => Err(one(FieldCode::Invalid, "Must be true or false.")),
            other => Err(incorrect_type("a boolean", &other)),
        }
    }
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {
        $(impl FromJson for $type {
            fn from_json(value: Value) -> Result<Self, FieldErrors> {
                let Number(number) = Number::from_json(value)?;
                whole(&number, &BigDecimal::from(<$type>::MAX))?;
                number.with_scale(0).to_string().parse().map_err(|_| one(FieldCode::Invalid, "A valid integer is required."))
            }

        })*
    };
}

whole_numbers!(u8, u16, u32);

fn whole(number: &BigDecimal, max: &BigDecimal) -> Result<(), FieldErrors> {
    if !number.is_integer() {
        Err(one(FieldCode::Invalid, "A valid integer is required."))
    } else if *number < BigDecimal::zero() {
        Err(one(FieldCode::MinValue, "Ensure this value is greater than or equal to 0."))
    } else if number > max {
        Err(one(FieldCode::MaxValue, format!("Ensure this value is less than or equal to {max}.")))
    } else {
        Ok(())
    }
}

macro_rules! ids {
    ($($type:ident),*) => {
        $(
            impl FromJson for $type {
                fn from_json(value: Value) -> Result<Self, FieldErrors> {
                    match value {
                        Value::String(text) => $type::from_str(&text).map_err(|_| {
                            one(FieldCode::Invalid, format!("{} is not {} and 32 hexadecimal digits.", quoted(&text), $type::PREFIX))
                        }),
                        other => Err(incorrect_type("a string", &other)),
                    }
                }
            }

            impl Described for $type {
                fn describe(_: &mut Schemas) -> Schema {
                    plain(Type::String, concat!("The id of a ", stringify!($type), ".").trim_end_matches("Id."))
                }
            }
        )*
    };
}

ids!(
    AddonId,
    AddonSubscriptionId,
    AddonVersionId,
    CreditId,
    FeatureId,
    InvoiceId,
    ApprovalId,
    JobId,
    BooksAuditId,
    MessageId,
    MetricId,
    OrganizationId,
    PaymentId,
    PlanId,
    PlanVersionId,
    SubscriptionId,
    TestClockId,
    CreditNoteId,
    OneOffLineId,
    EventCorrectionId,
    UsageAlertId,
    UserId,
    AuditEntryId,
    WebhookEndpointId
);

impl FromJson for LineId {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        let text = String::from_json(value)?;
        text.parse().map_err(|_| one(FieldCode::Invalid, format!("{} is not the id of a line.", quoted(&text))))
    }
}

impl Described for LineId {
    fn describe(_: &mut Schemas) -> Schema {
        plain(Type::String, "The id of a line of an issued invoice.")
    }
}

impl FromJson for CustomerId {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        let text = String::from_json(value)?;
        text.parse().map_err(|error| FieldErrors(vec![error]))
    }
}

impl Described for CustomerId {
    fn describe(_: &mut Schemas) -> Schema {
        plain(Type::String, "The caller's own id of a customer.")
    }
}

/// A list of texts; a single text is a list of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOrMany(pub Vec<String>);

impl FromJson for OneOrMany {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        match value {
            Value::String(text) => Ok(Self(vec![text])),
            other => Vec::from_json(other).map(Self),
        }
    }
}

impl Described for OneOrMany {
    fn describe(schemas: &mut Schemas) -> Schema {
        Vec::<String>::describe(schemas)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_have_bounds() {
        #[rustfmt::skip]
        let cases = [
            // value,             read,                         why
            (json!(7),            Ok(7),                        "an integer"),
            (json!("7"),          Ok(7),                        "numeric text"),
            (serde_json::from_str("7.0").expect("json"), Ok(7), "nothing behind the point"),
            (serde_json::from_str("3e1").expect("json"), Ok(30), "an exponent"),
            (serde_json::from_str("7.5").expect("json"), Err("invalid"), "not whole"),
            (json!(-1),           Err("min_value"),             "below 0"),
            (json!(70_000),       Err("max_value"),             "beyond 16 bits"),
            (json!(true),         Err("incorrect_type"),        "not a number"),
        ];
        for (value, expected, why) in cases {
            let read = u16::from_json(value.clone()).map_err(|errors| errors.0[0].code.as_str());
            assert_eq!(read, expected, "{value}: {why}");
        }
    }
}
