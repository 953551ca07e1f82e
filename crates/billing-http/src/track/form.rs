//! In which form events come: the service's own, or CNCF's CloudEvents in the three modes of its HTTP binding.

use actix_web::http::header::{CONTENT_TYPE, HeaderMap};
use billing_domain::FieldCode;
use serde_json::{Map, Value};

use super::cloud_event::{DATA_BASE64, FIELDS, MARK};
use crate::error::ApiError;

/// The media type of one CloudEvent.
pub const CLOUD_EVENT: &str = "application/cloudevents+json";
/// The media type of a list of CloudEvents.
pub const CLOUD_EVENTS: &str = "application/cloudevents-batch+json";
/// What the headers begin with that hold attributes of a CloudEvent.
const PREFIX: &str = "ce-";
/// The attribute that is the body.
const DATA: &str = "data";

/// What the events of a body are written as.
#[derive(Debug, PartialEq, Eq)]
pub enum Form {
    /// The service's own: a batch, a list, or one event.
    Own,
    /// One CloudEvent (structured mode).
    CloudEvent,
    /// A list of CloudEvents (batched mode).
    CloudEvents,
    /// These attributes of a CloudEvent came as headers; the body is its data (binary mode).
    Data(Map<String, Value>),
}

impl Form {
    /// What the headers of a request say.
    ///
    /// # Errors
    /// A header with an attribute of a CloudEvent that is there twice, or cannot be read.
    pub fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        Ok(match media_type.as_str() {
            CLOUD_EVENT => Self::CloudEvent,
            CLOUD_EVENTS => Self::CloudEvents,
            _ if headers.contains_key(format!("{PREFIX}{MARK}")) => Self::Data(attributes(headers)?),
            _ => Self::Own,
        })
    }
}

/// The CloudEvent of these attributes and this data, which is JSON or nothing, in structured mode.
pub fn structured(attributes: &Map<String, Value>, data: &str) -> String {
    let mut text = Value::from(attributes.clone()).to_string();
    if !data.trim().is_empty() {
        // In place of the last brace; at least one attribute stands before it, the mark of this mode.
        text.truncate(text.len() - 1);
        text.push_str(&format!(",\"{DATA}\":{data}}}"));
    }
    text
}

fn attributes(headers: &HeaderMap) -> Result<Map<String, Value>, ApiError> {
    let mut found = Map::new();
    for name in FIELDS.into_iter().filter(|name| ![DATA, DATA_BASE64].contains(name)) {
        let header = format!("{PREFIX}{name}");
        let mut values = headers.get_all(&header);
        let Some(value) = values.next() else { continue };
        let text =
            unquoted(value.as_bytes()).and_then(|value| percent_decoded(&value)).filter(|_| values.next().is_none());
        let Some(text) = text else {
            let detail =
                "Send this header once, as text in UTF-8 whose other characters than ASCII's are percent-encoded.";
            return Err(ApiError::field(&header, FieldCode::Invalid, detail));
        };
        found.insert(name.to_owned(), text.into());
    }
    Ok(found)
}

/// A header's value without quotes around it, within which a backslash stands before what is taken as it is; `None`: they do not
/// close.
fn unquoted(value: &[u8]) -> Option<Vec<u8>> {
    let Some(quoted) = value.strip_prefix(b"\"") else { return Some(value.to_vec()) };
    let (mut bytes, mut rest) = (Vec::with_capacity(quoted.len()), quoted.iter());
    loop {
        match rest.next()? {
            b'"' => return rest.next().is_none().then_some(bytes),
            b'\\' => bytes.push(*rest.next()?),
            byte => bytes.push(*byte),
        }
    }
}

/// A header's value as the HTTP binding writes it: what is no printable ASCII is percent-encoded UTF-8.
fn percent_decoded(value: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(*digit).to_digit(16));
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn headers_say_the_form() {
        let binary = |attributes: &[(&str, &str)]| {
            Some(Form::Data(attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()))
        };
        #[rustfmt::skip]
        let cases: [(&[(&str, &str)], Option<Form>, &str); 13] = [
            (&[("content-type", "application/json")],                                     Some(Form::Own),          "the service's own"),
            (&[],                                                                         Some(Form::Own),          "nothing is said"),
            (&[("content-type", "Application/CloudEvents+JSON; charset=utf-8")],          Some(Form::CloudEvent),   "structured"),
            (&[("content-type", CLOUD_EVENTS), ("ce-specversion", "1.0")],                Some(Form::CloudEvents),  "the media type goes first"),
            (&[("ce-specversion", "1.0"), ("ce-id", "a%20b%c3%A9")],                      binary(&[("specversion", "1.0"), ("id", "a b\u{e9}")]), "binary, percent-encoded"),
            (&[("ce-specversion", "1.0"), ("ce-other", "x"), ("ce-data", "1")],           binary(&[("specversion", "1.0")]), "what is none of the attributes"),
            (&[("ce-specversion", "1.0"), ("ce-id", "a"), ("ce-id", "b")],                None,                     "twice"),
            (&[("ce-specversion", "1.0"), ("ce-id", "\"7\"")],                            binary(&[("specversion", "1.0"), ("id", "7")]), "in quotes: the same id as without"),
            (&[("ce-specversion", "1.0"), ("ce-id", "\"a\\\"%25\"")],                     binary(&[("specversion", "1.0"), ("id", "a\"%")]), "a quote and a percent sign within"),
            (&[("ce-specversion", "1.0"), ("ce-id", "\"7")],                              None,                     "quotes that do not close"),
            (&[("ce-specversion", "1.0"), ("ce-data_base64", "eA==")],                    binary(&[("specversion", "1.0")]), "the body is the data"),
            (&[("ce-specversion", "1.0"), ("ce-id", "%")],                                None,                     "half an encoding"),
            (&[("ce-specversion", "1.0"), ("ce-id", "%ff")],                              None,                     "no UTF-8"),
        ];
        for (headers, expected, why) in cases {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            assert_eq!(Form::of(&map).ok(), expected, "{why}");
        }
    }

    #[test]
    fn attributes_and_data_make_one_event() {
        let attributes = Map::from_iter([("id".to_owned(), "{}}".into())]);
        assert_eq!(structured(&attributes, " {\"a\":1} "), r#"{"id":"{}}","data": {"a":1} }"#);
        assert_eq!(structured(&attributes, ""), r#"{"id":"{}}"}"#);
    }
}
