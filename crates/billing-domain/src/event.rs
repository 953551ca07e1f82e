//! Usage events: what happened, to whom, when, once.

use bigdecimal::BigDecimal;
use serde_json::Value;
use time::{Duration, OffsetDateTime};

use crate::customer::CustomerId;
use crate::decimal;

/// The properties of an event: free-form JSON, numbers with every digit they were sent with.
pub type Properties = serde_json::Map<String, Value>;

/// How far ahead of the customer's now an event may be dated.
pub const AHEAD_MAX: Duration = Duration::days(1);

/// One usage event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The customer, who need not exist yet.
    pub customer: CustomerId,
    /// What happened.
    pub name: String,
    /// The sender's id for it: the second event with the same id is the same event.
    pub idempotency_id: String,
    /// When it happened, in whole microseconds.
    pub time_created: OffsetDateTime,
    /// Its properties.
    pub properties: Properties,
}

/// What became of an event handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingested {
    /// It is stored and counted.
    Stored,
    /// It had been stored before; the first one counts.
    Duplicate,
    /// It is dated too far back or ahead of the customer's now.
    OutsideWindow,
}

/// Whether an event dated `time_created` is accepted at `now`: from `window_days` back to one day ahead, both
/// ends included.
pub fn is_within_window(time_created: OffsetDateTime, now: OffsetDateTime, window_days: u16) -> bool {
    time_created >= now - Duration::days(i64::from(window_days)) && time_created <= now + AHEAD_MAX
}

/// The number in a property: a JSON number or a numeric string of bounded size, otherwise nothing.
pub fn property_number(properties: &Properties, name: &str) -> Option<BigDecimal> {
    match properties.get(name)? {
        Value::Number(number) => decimal::parse_property(&number.to_string()),
        Value::String(text) => decimal::parse_property(text),
        _ => None,
    }
}

/// The text of a property, as subscription filters compare it: strings as they are, numbers in plain
/// notation with the decimals they were sent with, booleans as `true` and `false`.
pub fn property_text(properties: &Properties, name: &str) -> Option<String> {
    match properties.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => {
            let text = number.to_string();
            Some(decimal::parse_property(&text).map_or(text, |value| value.to_plain_string()))
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::macros::datetime;

    use super::*;

    #[test]
    fn reads_numbers_without_losing_a_digit() {
        #[rustfmt::skip]
        let cases = [
            // property,                   number,                             why
            (json!(3),                     Some("3"),                          "an integer"),
            (json!("3.50"),                Some("3.50"),                       "a numeric string"),
            (serde_json::from_str("123456789012345678901234567890.5").expect("json"),
                                           Some("123456789012345678901234567890.5"), "more digits than a float has"),
            (json!("abc"),                 None,                               "not a number"),
            (json!(true),                  None,                               "not a number"),
            (json!(null),                  None,                               "nothing"),
            (serde_json::from_str("1e31").expect("json"), None,                "an exponent beyond 30"),
        ];
        for (value, number, why) in cases {
            let properties = Properties::from_iter([("n".to_owned(), value.clone())]);
            let expected = number.map(|text| text.parse::<BigDecimal>().expect("decimal"));
            assert_eq!(property_number(&properties, "n"), expected, "{value}: {why}");
        }
        assert_eq!(property_number(&Properties::new(), "n"), None, "a missing property");
    }

    #[test]
    fn filters_compare_text() {
        #[rustfmt::skip]
        let cases = [
            // property,              text,           why
            (json!("eu"),             Some("eu"),     "a string as it is"),
            (json!(7),                Some("7"),      "a number as its digits"),
            (serde_json::from_str("1.50").expect("json"), Some("1.50"), "decimals are kept"),
            (serde_json::from_str("1e2").expect("json"),  Some("100"),  "exponents are written out"),
            (json!(true),             Some("true"),   "a boolean by name"),
            (json!([1]),              None,           "a list has no text"),
        ];
        for (value, text, why) in cases {
            let properties = Properties::from_iter([("p".to_owned(), value.clone())]);
            assert_eq!(property_text(&properties, "p").as_deref(), text, "{value}: {why}");
        }
    }

    #[test]
    fn the_window_includes_both_ends() {
        let now = datetime!(2024-03-31 12:00 UTC);
        let us = Duration::microseconds(1);
        #[rustfmt::skip]
        let cases = [
            // time,                         accepted, why
            (now,                            true,  "just now"),
            (now - Duration::days(30),       true,  "exactly 30 days back"),
            (now - Duration::days(30) - us,  false, "a microsecond too old"),
            (now + Duration::days(1),        true,  "exactly one day ahead"),
            (now + Duration::days(1) + us,   false, "a microsecond too far ahead"),
        ];
        for (time, accepted, why) in cases {
            assert_eq!(is_within_window(time, now, 30), accepted, "{why}");
        }
    }
}
