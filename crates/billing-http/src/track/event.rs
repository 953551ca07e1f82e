//! One event as JSON.

use billing_domain::customer::CustomerId;
use billing_domain::event::{Event, Properties};
use billing_domain::text;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use crate::body::read_fields;
use crate::wire::read_instant;

/// Why an event too old or too far ahead is refused.
pub const OUTSIDE_WINDOW: &str = "Time created too far in the past or future. Events must be within the accepted number of days before (30 unless the organization says otherwise) or 1 day ahead of current time";
/// Largest properties of one event, in bytes of JSON.
const PROPERTIES_BYTES_MAX: usize = 32 * 1024;

/// Nothing of an event is there: another word stands around the events, or nothing at all.
const NO_EVENT: &str = "No idempotency_id provided: this is no event; send an event, a list of events, or {\"batch\": [..]} with a list of them";
const MISSING_TIME: &str = "Invalid time_created: it is missing; send when it happened, as 2024-01-31T12:00:00Z";
const UNIX_TIME: &str = "Invalid time_created: Unix times are not taken; send a date and time, as 2024-01-31T12:00:00Z";
const OTHER_TIME: &str = "Invalid time_created: send a date and time, as 2024-01-31T12:00:00Z";

/// An event that is refused by itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its id, if it has one.
    pub idempotency_id: Option<String>,
    /// Why: all that is wrong with it.
    pub reason: String,
}

/// The fields of an event.
pub const FIELDS: [&str; 5] = ["idempotency_id", "customer_id", "event_name", "time_created", "properties"];

/// Reads an event; the text was scanned before. What else is in it is ignored.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read_event(json: &str) -> Result<Event, Rejected> {
    read_event_and(json, &mut |_| {})
}

/// [`read_event`]; `other` is told the names of what else is in it.
///
/// # Errors
/// As [`read_event`].
pub fn read_event_and(json: &str, other: &mut dyn FnMut(&str)) -> Result<Event, Rejected> {
    let without_id = |reason: &str| Rejected { idempotency_id: None, reason: reason.to_owned() };
    let parts = read_fields(json, &FIELDS, other).map_err(|_| without_id("Invalid event"))?;
    if parts.iter().all(Option::is_none) {
        return Err(without_id(NO_EVENT));
    }
    let [idempotency_id, customer, name, time_created, properties] = parts;
    let mut reasons: Vec<&'static str> = Vec::new();
    let given = read_text(idempotency_id);
    let known_id = given.text().map(str::to_owned);
    let is_id = |text: &str| text::check_id(text).is_ok();
    let id = keep(given, is_id, ["No idempotency_id provided", "Invalid idempotency_id"], &mut reasons);
    let is_customer = |text: &str| text.parse::<CustomerId>().is_ok();
    let customer =
        keep(read_text(customer), is_customer, ["No customer_id provided", "Invalid customer_id"], &mut reasons);
    let name = keep(read_text(name), is_id, ["No event_name provided", "Invalid event_name"], &mut reasons);
    let time_reasons = [MISSING_TIME, UNIX_TIME, OTHER_TIME];
    let time_created = read_time(time_created, time_reasons).map_err(|reason| reasons.push(reason)).ok();
    let properties = read_properties(properties, "Invalid properties").map_err(|reason| reasons.push(reason)).ok();
    let customer = customer.and_then(|customer| customer.parse().ok());
    match (id, customer, name, time_created, properties) {
        (Some(idempotency_id), Some(customer), Some(name), Some(time_created), Some(properties)) => {
            Ok(Event { customer, name, idempotency_id, time_created, properties })
        }
        _ => Err(Rejected { idempotency_id: known_id, reason: reasons.join("; ") }),
    }
}

/// A text that passes `is_right`, or why not: it is missing, or it is bad.
pub(super) fn keep(
    text: Text,
    is_right: impl Fn(&str) -> bool,
    [missing, bad]: [&'static str; 2],
    reasons: &mut Vec<&'static str>,
) -> Option<String> {
    match text {
        Text::Given(text) if is_right(&text) => return Some(text),
        Text::Missing => reasons.push(missing),
        Text::Given(_) | Text::Other => reasons.push(bad),
    }
    None
}

/// An instant, or why it is none: it is missing, a Unix time, or something else.
pub(super) fn read_time(
    raw: Option<&RawValue>,
    [missing, unix, other]: [&'static str; 3],
) -> Result<OffsetDateTime, &'static str> {
    let is_unix = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match read_text(raw) {
        Text::Missing => Err(missing),
        Text::Given(text) if is_unix(&text) => Err(unix),
        Text::Given(text) => read_instant(&text).ok_or(other),
        Text::Other if raw.is_some_and(|raw| is_unix(raw.get())) => Err(unix),
        Text::Other => Err(other),
    }
}

/// What a field says.
pub(super) enum Text {
    /// Nothing, or as good as nothing.
    Missing,
    /// A text.
    Given(String),
    /// Something else.
    Other,
}

impl Text {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Given(text) => Some(text),
            Self::Missing | Self::Other => None,
        }
    }
}

/// A text; empty text and null are as good as missing.
pub(super) fn read_text(raw: Option<&RawValue>) -> Text {
    match raw.map(RawValue::get) {
        None | Some("null" | "\"\"") => Text::Missing,
        Some(json) => text::of_json(json).map_or(Text::Other, |text| Text::Given(text.into_owned())),
    }
}

/// Properties, none where they are missing; or why they are none, which is `bad` unless they are too large.
pub(super) fn read_properties(raw: Option<&RawValue>, bad: &'static str) -> Result<Properties, &'static str> {
    let Some(raw) = raw else { return Ok(Properties::new()) };
    if raw.get().len() > PROPERTIES_BYTES_MAX {
        return Err("Properties too large");
    }
    match raw.get() {
        "null" => Ok(Properties::new()),
        json => json.parse().map_err(|_| bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_reason() {
        #[rustfmt::skip]
        let cases = [
            // event,                                                                                                    id,        reasons
            (r#"{"idempotency_id":"","customer_id":"c","event_name":"e","time_created":"2024-01-01"}"#,                   None,      "No idempotency_id provided"),
            (r#"{"idempotency_id":7,"customer_id":"c","event_name":"e","time_created":"2024-01-01"}"#,                    None,      "Invalid idempotency_id"),
            (r#"{"idempotency_id":"\n","customer_id":"c","event_name":"e","time_created":"2024-01-01"}"#,                 Some("\n"), "Invalid idempotency_id"),
            (r#"{"idempotency_id":"a","event_name":"e","time_created":"2024-01-01"}"#,                                    Some("a"), "No customer_id provided"),
            (r#"{"idempotency_id":"a","customer_id":null,"event_name":"e","time_created":"2024-01-01"}"#,                 Some("a"), "No customer_id provided"),
            (r#"{"idempotency_id":"a","customer_id":"\n","event_name":"e","time_created":"2024-01-01"}"#,                 Some("a"), "Invalid customer_id"),
            (r#"{"idempotency_id":"a","customer_id":"c","time_created":"2024-01-01"}"#,                                   Some("a"), "No event_name provided"),
            (r#"{"idempotency_id":"a","customer_id":"c","event_name":[],"time_created":"2024-01-01"}"#,                   Some("a"), "Invalid event_name"),
            (r#"{"idempotency_id":"a","customer_id":"c","event_name":"e"}"#,                                              Some("a"), MISSING_TIME),
            (r#"{"idempotency_id":"a","customer_id":"c","event_name":"e","time_created":1705740815}"#,                    Some("a"), UNIX_TIME),
            (r#"{"idempotency_id":"a","customer_id":"c","event_name":"e","time_created":"1705740815.25"}"#,               Some("a"), UNIX_TIME),
            (r#"{"idempotency_id":"a","customer_id":"c","event_name":"e","time_created":"today"}"#,                       Some("a"), OTHER_TIME),
            (r#"{"idempotency_id":"a","customer_id":"c","event_name":"e","time_created":{}}"#,                            Some("a"), OTHER_TIME),
            (r#"{"idempotency_id":"a","customer_id":"c","event_name":"e","time_created":"2024-01-01","properties":[]}"#,  Some("a"), "Invalid properties"),
            (r#"{"idempotency_id":"a","event_name":7,"time_created":"2024-01-01","properties":1}"#,                       Some("a"), "No customer_id provided; Invalid event_name; Invalid properties"),
            (r#"{"event_name":"e","time_created":"2024-01-01"}"#,                                                         None,      "No idempotency_id provided; No customer_id provided"),
            (r#"{}"#,                                                                                                     None,      NO_EVENT),
            (r#"{"events":[]}"#,                                                                                          None,      NO_EVENT),
            (r#"[]"#,                                                                                                     None,      "Invalid event"),
            (r#""text""#,                                                                                                 None,      "Invalid event"),
        ];
        for (json, id, reason) in cases {
            let rejected = read_event(json).expect_err(json);
            assert_eq!((rejected.idempotency_id.as_deref(), rejected.reason.as_str()), (id, reason), "{json}");
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
