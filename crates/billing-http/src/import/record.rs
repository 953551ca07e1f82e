//! One event of a file, and how its text becomes one.

use billing_domain::event::Event;
use serde::de::IgnoredAny;

use super::place::Place;
use crate::body::{JsonFault, scan};
use crate::track::{Rejected, is_cloud_event, read_cloud_event, read_event};

/// Longest line, element or row, in bytes.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;
const NOT_JSON: &str = "This is not JSON";

/// One event of a file, or what was meant to be one.
pub struct Record {
    /// The line on which it begins, from 1.
    pub line: u64,
    /// As it stands there.
    pub text: String,
    /// The event, or why it is none.
    pub event: Result<Event, String>,
}

/// How an object that begins at a place becomes an event.
pub type ReadEvent = fn(&str, Place) -> Result<Event, String>;

/// An object: an event, or a CloudEvent if it says so.
pub fn read_object(json: &str, begins: Place) -> Result<Event, String> {
    read_with(json, begins, |json| if is_cloud_event(json) { read_cloud_event(json) } else { read_event(json) })
}

/// An object that must be a CloudEvent.
pub fn read_cloud(json: &str, begins: Place) -> Result<Event, String> {
    read_with(json, begins, read_cloud_event)
}

fn read_with(json: &str, begins: Place, read: impl Fn(&str) -> Result<Event, Rejected>) -> Result<Event, String> {
    match scan(json) {
        Ok(()) => read(json).map_err(|rejected| not_json(json, begins).unwrap_or(rejected.reason)),
        Err(JsonFault::Malformed) => Err(not_json(json, begins).unwrap_or_else(|| NOT_JSON.to_owned())),
        Err(fault) => Err(fault.code().meaning.to_owned()),
    }
}

/// From where on a text that begins at a place is no JSON, if it is none.
fn not_json(json: &str, begins: Place) -> Option<String> {
    let error = serde_json::from_str::<IgnoredAny>(json).err()?;
    Some(format!("{NOT_JSON}: {}", begins.further(error.line() as u64, error.column() as u64)))
}

/// The text of bytes. What is not UTF-8 is no event; a replacement character at its beginning keeps it from being one by
/// accident.
pub fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| format!("\u{fffd}{}", String::from_utf8_lossy(error.as_bytes())))
}
