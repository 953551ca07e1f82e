//! One line of the log.

use std::fmt::Write;

use log::Record;
use log::kv::{self, Key, VisitSource};
use serde_json::{Map, Value};

use crate::request_id;

/// A line as JSON: when, how bad, where, what, and what it tells by name.
pub fn json(record: &Record<'_>, ts: &str) -> Value {
    let mut line = Map::new();
    line.insert("ts".to_owned(), ts.into());
    line.insert("level".to_owned(), record.level().as_str().into());
    line.insert("target".to_owned(), record.target().into());
    line.insert("message".to_owned(), record.args().to_string().into());
    line.insert("fields".to_owned(), Value::Object(fields(record).into_iter().collect()));
    Value::Object(line)
}

/// The message of a line, and what it tells by name.
pub fn text(record: &Record<'_>) -> String {
    let mut line = record.args().to_string();
    for (name, value) in fields(record) {
        // Writing to a string cannot fail.
        let _ = match value {
            Value::String(text) if !is_plain(&text) => write!(line, " {name}={text:?}"),
            Value::String(text) => write!(line, " {name}={text}"),
            value => write!(line, " {name}={value}"),
        };
    }
    line
}

/// Whether a text can stand behind `name=` as it is.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '"' && c != '=')
}

/// What a line tells by name: first the request that caused it.
fn fields(record: &Record<'_>) -> Vec<(String, Value)> {
    let mut fields = Fields(Vec::new());
    if let Some(request_id::Request { id, trace }) = request_id::carried() {
        fields.add("request_id", id.into());
        if let Some(trace) = trace {
            fields.add("trace_id", trace.trace_id.into());
            fields.add("span_id", trace.span_id.into());
            fields.add("parent_id", trace.parent_id.into());
        }
    }
    // This visitor refuses nothing.
    let _ = record.key_values().visit(&mut fields);
    fields.0
}

struct Fields(Vec<(String, Value)>);

impl Fields {
    fn add(&mut self, name: &str, value: Value) {
        self.0.push((name.to_owned(), value));
    }
}

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: kv::Value<'kvs>) -> Result<(), kv::Error> {
        // Counts and flags are themselves; all else is text, amounts too, which would lose digits in most readers.
        let value = match (value.to_u64(), value.to_bool()) {
            (Some(count), _) => count.into(),
            (None, Some(flag)) => flag.into(),
            (None, None) => value.to_string().into(),
        };
        self.add(key.as_str(), value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use log::Level;
    use serde_json::json;

    use super::*;
    use crate::request_id::Request;

    fn with_record<T>(pairs: &[(&str, kv::Value<'_>)], then: impl Fn(&Record<'_>) -> T) -> T {
        let mut builder = Record::builder();
        builder.level(Level::Warn).target("billing_http::middleware").key_values(&pairs);
        then(&builder.args(format_args!("a \"request\"\n")).build())
    }

    #[test]
    fn whatever_is_in_a_line_it_is_one_line_with_its_fields_by_name() {
        let pairs = [
            ("status", kv::Value::from(404_u64)),
            ("is_new", kv::Value::from(true)),
            ("key", kv::Value::from("a\"b\nc=d")),
            ("none", kv::Value::from("")),
            ("amount", kv::Value::from_display(&"9.90")),
        ];
        let line = with_record(&pairs, |record| json(record, "1970-01-01T00:00:00.000000Z"));
        let expected = json!({"ts": "1970-01-01T00:00:00.000000Z", "level": "WARN", "target": "billing_http::middleware",
            "message": "a \"request\"\n",
            "fields": {"status": 404, "is_new": true, "key": "a\"b\nc=d", "none": "", "amount": "9.90"}});
        assert_eq!(line, expected);
        assert!(!line.to_string().contains('\n'), "one line");
        let shown = with_record(&pairs, text);
        assert_eq!(shown, "a \"request\"\n status=404 is_new=true key=\"a\\\"b\\nc=d\" none=\"\" amount=9.90");
    }

    #[test]
    fn what_a_request_causes_has_its_id() {
        let request = Request { id: "order-1".to_owned(), trace: None };
        let shown = request_id::within(Some(request), || with_record(&[("status", kv::Value::from(200_u64))], text));
        assert!(shown.ends_with(" request_id=order-1 status=200"), "{shown}");
    }
}
