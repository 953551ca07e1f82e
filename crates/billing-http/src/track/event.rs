//! One event as JSON.

use billing_domain::event::{Event, Properties};
use billing_domain::text;
use serde_json::value::RawValue;

use crate::body::read_fields;
use crate::wire::read_instant;

/// Why an event too old or too far ahead is refused.
pub const OUTSIDE_WINDOW: &str = "Time created too far in the past or future. Events must be within the accepted number of days before (30 unless the organization says otherwise) or 1 day ahead of current time";
/// Largest properties of one event, in bytes of JSON.
const PROPERTIES_BYTES_MAX: usize = 32 * 1024;

/// An event that is refused by itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its id, if it has one.
    pub idempotency_id: Option<String>,
    /// Why.
    pub reason: &'static str,
}

/// The fields of an event.
pub const FIELDS: [&str; 5] = ["idempotency_id", "customer_id", "event_name", "time_created", "properties"];

/// Reads an event; the text was scanned before. What else is in it is ignored.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn read_event(json: &str) -> Result<Event, Rejected> {
    read_event_and(json, &mut |_| {})
}

/// [`read_event`]; `other` is told the names of what else is in it.
///
/// # Errors
/// As [`read_event`].
pub fn read_event_and(json: &str, other: &mut dyn FnMut(&str)) -> Result<Event, Rejected> {
    let without_id = |reason| Rejected { idempotency_id: None, reason };
    let parts = read_fields(json, &FIELDS, other).map_err(|_| without_id("Invalid event"))?;
    let [idempotency_id, customer, name, time_created, properties] = parts;
    let idempotency_id = match read_text(idempotency_id) {
        Text::Given(id) => id,
        Text::Missing => return Err(without_id("No idempotency_id provided")),
        Text::Other => return Err(without_id("Invalid idempotency_id")),
    };
    let reject = |reason| Rejected { idempotency_id: Some(idempotency_id.clone()), reason };
    text::check_id(&idempotency_id).map_err(|_| reject("Invalid idempotency_id"))?;
    let customer = match read_text(customer) {
        Text::Given(id) => id.parse().map_err(|_| reject("Invalid customer_id"))?,
        Text::Missing => return Err(reject("No customer_id provided")),
        Text::Other => return Err(reject("Invalid customer_id")),
    };
    let name = match read_text(name) {
        Text::Given(name) => name,
        Text::Missing => return Err(reject("No event_name provided")),
        Text::Other => return Err(reject("Invalid event_name")),
    };
    text::check_id(&name).map_err(|_| reject("Invalid event_name"))?;
    let time_created = match read_text(time_created) {
        Text::Given(text) => read_instant(&text).ok_or_else(|| reject("Invalid time_created"))?,
        Text::Missing | Text::Other => return Err(reject("Invalid time_created")),
    };
    let properties = read_properties(properties).map_err(reject)?;
    Ok(Event { customer, name, idempotency_id, time_created, properties })
}

enum Text {
    Missing,
    Given(String),
    Other,
}

/// A text; empty text and null are as good as missing.
fn read_text(raw: Option<&RawValue>) -> Text {
    match raw.map(RawValue::get) {
        None | Some("null" | "\"\"") => Text::Missing,
        Some(json) => text::of_json(json).map_or(Text::Other, |text| Text::Given(text.into_owned())),
    }
}

fn read_properties(raw: Option<&RawValue>) -> Result<Properties, &'static str> {
    let Some(raw) = raw else { return Ok(Properties::new()) };
    if raw.get().len() > PROPERTIES_BYTES_MAX {
        return Err("Properties too large");
    }
    match raw.get() {
        "null" => Ok(Properties::new()),
        json => json.parse().map_err(|_| "Invalid properties"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_reason() {
        #[rustfmt::skip]
        let cases = [
            // event,                                                                                                   id,        reason
            (r#"{}"#,                                                                                                    None,      "No idempotency_id provided"),
            (r#"{"idempotency_id":""}"#,                                                                                 None,      "No idempotency_id provided"),
            (r#"{"idempotency_id":7}"#,                                                                                  None,      "Invalid idempotency_id"),
            (r#"{"idempotency_id":"a"}"#,                                                                                Some("a"), "No customer_id provided"),
            (r#"{"idempotency_id":"a","customer_id":null}"#,                                                             Some("a"), "No customer_id provided"),
            (r#"{"idempotency_id":"a","customer_id":"\n"}"#,                                                             Some("a"), "Invalid customer_id"),
            (r#"{"idempotency_id":"a","customer_id":"c"}"#,                                                              Some("a"), "No event_name provided"),
            (r#"{"idempotency_id":"a","customer_id":"c","event_name":"e"}"#,                                             Some("a"), "Invalid time_created"),
            (r#"{"idempotency_id":"a","customer_id":"c","event_name":"e","time_created":1705740815}"#,                   Some("a"), "Invalid time_created"),
            (r#"{"idempotency_id":"a","customer_id":"c","event_name":"e","time_created":"2024-01-01","properties":[]}"#, Some("a"), "Invalid properties"),
            (r#"[]"#,                                                                                                    None,      "Invalid event"),
            (r#""text""#,                                                                                                None,      "Invalid event"),
        ];
        for (json, id, reason) in cases {
            let rejected = read_event(json).expect_err(json);
            assert_eq!((rejected.idempotency_id.as_deref(), rejected.reason), (id, reason), "{json}");
        }
    }

    #[test]
    fn properties_keep_their_digits() {
        let json = r#"{"idempotency_id":"a","customer_id":"c","event_name":"e","time_created":"2023-01-01 21:58:14.193000+00:00",
            "properties":{"exact":12345678901234567890.1234567890,"bomb":1e999999999,"deep":[{"bomb":1e99}]},"library":"x"}"#;
        let event = read_event(json).expect("an event");
        assert_eq!(
            event.properties.as_json(),
            r#"{"bomb":"1e+999999999","deep":[{"bomb":"1e+99"}],"exact":12345678901234567890.1234567890}"#
        );
        assert_eq!(event.time_created, time::macros::datetime!(2023-01-01 21:58:14.193 UTC));
    }
}
