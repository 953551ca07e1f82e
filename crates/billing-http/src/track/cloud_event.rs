//! An event as CNCF's CloudEvents has it, version 1.0, in its JSON format.

use billing_domain::customer::CustomerId;
use billing_domain::event::Event;
use billing_domain::text;
use serde_json::value::RawValue;

use super::event::{Rejected, keep, read_properties, read_text, read_time};
use crate::body::read_fields;

/// The attribute that says that an object is one, and its only value.
pub const MARK: &str = "specversion";
const VERSION: &str = "1.0";
/// The attributes that something is made of. Others may be there and mean nothing: the specification lets everybody add some.
pub const FIELDS: [&str; 8] = [MARK, "id", "source", "type", "subject", "time", "data", DATA_BASE64];
/// Data as bytes, which are no properties.
pub const DATA_BASE64: &str = "data_base64";

const UNKNOWN_VERSION: &str = "Unknown specversion: CloudEvents 1.0 are taken";
const BAD_SOURCE: &str = "Invalid source: it is a URI reference, without spaces";
const TOO_LONG: &str = "Invalid id: with its source it may have 254 characters, none of them a control character";
const MISSING_TIME: &str = "No time provided: send when it happened, as 2024-01-31T12:00:00Z";
const BAD_TIME: &str = "Invalid time: send a date and time, as 2024-01-31T12:00:00Z";
const BINARY_DATA: &str = "data_base64 is not taken: send the properties as JSON in data";
const BAD_DATA: &str = "Invalid data: expected an object of properties";

/// Whether an object says that it is a CloudEvent.
pub fn is_cloud_event(json: &str) -> bool {
    // Most texts are not, and need not be parsed for it.
    json.contains(MARK) && read_fields(json, &[MARK], &mut |_| {}).is_ok_and(|[mark]| mark.is_some())
}

/// Reads a CloudEvent; the text was scanned before. `subject` is the customer, `type` the event's name, `data` its properties.
///
/// A source gives each id once, and two sources may give the same one, so the event's id is both: `source`, a space, `id`.
/// A source has no space in it, which is why no other pair makes the same text.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read_cloud_event(json: &str) -> Result<Event, Rejected> {
    let without_id = |reason: &str| Rejected { idempotency_id: None, reason: reason.to_owned() };
    let parts = read_fields(json, &FIELDS, &mut |_| {}).map_err(|_| without_id("Invalid event"))?;
    let [version, id, source, kind, subject, time, data, data_base64] = parts;
    let mut reasons: Vec<&'static str> = Vec::new();
    if data_base64.is_some() {
        // Left out, it would use the id up for an event without properties.
        reasons.push(BINARY_DATA);
    }
    let is_version = |text: &str| text == VERSION;
    let is_missing = "No specversion provided: this is no CloudEvent";
    keep(read_text(version), is_version, [is_missing, UNKNOWN_VERSION], &mut reasons);
    let id = idempotency_id(id, source, &mut reasons);
    let is_customer = |text: &str| text.parse::<CustomerId>().is_ok();
    let missing = "No subject provided: it is the customer";
    let customer = keep(read_text(subject), is_customer, [missing, "Invalid subject"], &mut reasons);
    let customer = customer.and_then(|customer| customer.parse().ok());
    let is_name = |text: &str| text::check_id(text).is_ok();
    let missing = "No type provided: it is the event's name";
    let name = keep(read_text(kind), is_name, [missing, "Invalid type"], &mut reasons);
    let time_created = read_time(time, [MISSING_TIME, BAD_TIME, BAD_TIME]).map_err(|reason| reasons.push(reason)).ok();
    let properties = read_properties(data, BAD_DATA).map_err(|reason| reasons.push(reason)).ok();
    match (&id, customer, name, time_created, properties) {
        (Some(id), Some(customer), Some(name), Some(time_created), Some(properties)) if reasons.is_empty() => {
            Ok(Event { customer, name, idempotency_id: id.clone(), time_created, properties })
        }
        _ => Err(Rejected { idempotency_id: id, reason: reasons.join("; ") }),
    }
}

/// Source and id as one.
fn idempotency_id(id: Option<&RawValue>, source: Option<&RawValue>, reasons: &mut Vec<&'static str>) -> Option<String> {
    let id = keep(read_text(id), |_| true, ["No id provided", "Invalid id"], reasons);
    let is_source = |text: &str| !text.contains(' ');
    let source = keep(read_text(source), is_source, ["No source provided", BAD_SOURCE], reasons);
    let both = format!("{} {}", source?, id?);
    if text::check_id(&both).is_err() {
        reasons.push(TOO_LONG);
        return None;
    }
    Some(both)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event() -> Value {
        json!({"specversion": "1.0", "id": "7", "source": "/gateway/eu", "type": "api_call", "subject": "acme",
            "time": "2024-04-01T10:00:00+02:00", "datacontenttype": "application/json", "traceparent": "x", "data": {"a": 1}})
    }

    #[test]
    fn its_attributes_make_an_event() {
        let json = event().to_string().replace("{\"a\":1}", "{\"tokens\":12.50}");
        assert!(is_cloud_event(&json));
        let read = read_cloud_event(&json).expect("an event");
        let texts = (read.customer.as_str(), read.name.as_str(), read.idempotency_id.as_str());
        assert_eq!(texts, ("acme", "api_call", "/gateway/eu 7"));
        assert_eq!(read.properties.as_json(), r#"{"tokens":12.50}"#, "digits are kept");
        assert_eq!(read.time_created, time::macros::datetime!(2024-04-01 08:00 UTC));
        for other in [r#"{"idempotency_id":"specversion"}"#, r#"{"properties":{"specversion":"1.0"}}"#, "[]", "7"] {
            assert!(!is_cloud_event(other), "{other}");
        }
    }

    #[test]
    fn different_sources_and_ids_never_make_one_event() {
        let id = |source: &str, id: &str| {
            let mut event = event();
            (event["source"], event["id"]) = (source.into(), id.into());
            read_cloud_event(&event.to_string()).map(|event| event.idempotency_id)
        };
        let pairs = [("a", "b c"), ("a", "b  c"), ("a", " b c"), ("ab", "c"), ("a", "bc"), ("b c", "a"), ("a b", "c")];
        let made: Vec<_> = pairs.iter().filter_map(|(source, name)| id(source, name).ok()).collect();
        let different: std::collections::BTreeSet<_> = made.iter().collect();
        assert_eq!((made.len(), different.len()), (5, 5), "the last two have sources that are none: {made:?}");
        assert!(id(&"s".repeat(127), &"i".repeat(127)).is_ok(), "as long as an id may be");
        assert_eq!(id(&"s".repeat(128), &"i".repeat(127)).expect_err("one more").reason, TOO_LONG);
    }

    #[test]
    fn each_fault_names_its_attribute() {
        #[rustfmt::skip]
        let cases = [
            // attribute,    value,                     has an id, reason
            ("specversion",  json!("0.3"),              true,  UNKNOWN_VERSION),
            ("specversion",  json!(null),               true,  "No specversion provided: this is no CloudEvent"),
            ("id",           json!(null),               false, "No id provided"),
            ("id",           json!("a\nb"),             false, TOO_LONG),
            ("id",           json!(7),                  false, "Invalid id"),
            ("source",       json!(""),                 false, "No source provided"),
            ("source",       json!("a b"),              false, BAD_SOURCE),
            ("subject",      json!(null),               true,  "No subject provided: it is the customer"),
            ("subject",      json!("\n"),               true,  "Invalid subject"),
            ("type",         json!(7),                  true,  "Invalid type"),
            ("time",         json!(null),               true,  MISSING_TIME),
            ("time",         json!("yesterday"),        true,  BAD_TIME),
            ("time",         json!(1_711_958_400),      true,  BAD_TIME),
            ("data",         json!("text"),             true,  BAD_DATA),
            ("data",         json!([1]),                true,  BAD_DATA),
            ("data_base64",  json!("eyJhIjoxfQ=="),     true,  BINARY_DATA),
        ];
        for (attribute, value, has_id, reason) in cases {
            let mut event = event();
            event[attribute] = value;
            let rejected = read_cloud_event(&event.to_string()).expect_err(attribute);
            assert_eq!((rejected.idempotency_id.is_some(), rejected.reason.as_str()), (has_id, reason), "{event}");
        }
        let all = read_cloud_event(r#"{"specversion":"2","id":"1","source":"s"}"#).expect_err("several").reason;
        let subject = "No subject provided: it is the customer; No type provided: it is the event's name";
        assert_eq!(all, format!("{UNKNOWN_VERSION}; {subject}; {MISSING_TIME}"), "all that is wrong");
        assert_eq!(read_cloud_event("[]").expect_err("a list").reason, "Invalid event");
    }
}
