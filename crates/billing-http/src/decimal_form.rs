//! Answers as they leave: JSON ends its last line, and decimals are text for whoever asks for that.
//!
//! Most readers of JSON make floats of numbers, and clients that are generated from the description do. With
//! `Accept: application/json; numbers=text` every decimal of an answer is JSON text instead. Which numbers those are is
//! read off the description, so that it also holds for an answer that was kept, and cannot drift from what is described.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::http::Method;
use actix_web::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use actix_web::web::{self, Bytes, BytesMut};
use serde_json::Value;

use crate::endpoint::{Access, Matched};
use crate::error::PROBLEM_JSON;
use crate::routes;
use crate::wire::{DECIMAL, DecimalForm, Direction, Schemas};

const JSON: &str = "application/json";
const JSON_OF_TEXTS: &str = "application/json; numbers=text";
/// Larger answers are written anew on a blocking thread, so that other requests do not wait for it.
const BYTES_INLINE_MAX: usize = 64 * 1_024;

/// The answer with a line's end, and with its decimals as text if its client asks for that.
pub async fn present(response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_json = kind == JSON;
    if !is_json && kind != PROBLEM_JSON {
        return response;
    }
    let of_texts = is_json && response.status().is_success() && wants_text(response.request().headers());
    let shape = if of_texts { shape_of(&response) } else { None };
    let (request, answer) = response.into_parts();
    let (mut answer, body) = answer.into_parts();
    let plain = match body.try_into_bytes() {
        Ok(plain) => plain,
        // A body that comes in parts stays as it is.
        Err(body) => return ServiceResponse::new(request, answer.set_body(body)),
    };
    if shape.is_some() {
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON_OF_TEXTS));
        answer.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
    }
    let mut body = match shape {
        None => BytesMut::from(plain),
        Some(shape) if plain.len() <= BYTES_INLINE_MAX => with_texts(&plain, shape),
        Some(shape) => {
            let unchanged = plain.clone();
            web::block(move || with_texts(&plain, shape)).await.unwrap_or_else(|_| BytesMut::from(unchanged))
        }
    };
    body.extend_from_slice(b"\n");
    ServiceResponse::new(request, answer.set_body(BoxBody::new(body.freeze())))
}

/// Whether the first form of JSON that is accepted has decimals as text.
fn wants_text(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let mut of_json = accepted.filter_map(|kind| {
        let (kind, parameters) = kind.split_once(';').unwrap_or((kind, ""));
        kind.trim().eq_ignore_ascii_case(JSON).then_some(parameters)
    });
    of_json.next().is_some_and(|parameters| {
        let is_asked = |parameter: &str| {
            let (name, value) = parameter.split_once('=').unwrap_or_default();
            name.trim().eq_ignore_ascii_case("numbers")
                && value.trim().trim_matches('"').eq_ignore_ascii_case(DecimalForm::Text.as_str())
        };
        parameters.split(';').any(is_asked)
    })
}

/// Which numbers of a value are decimals.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    /// None: whole numbers, and what is given back as it was sent.
    Whole,
    /// It is one.
    Decimal,
    /// All of them, however deep: what explains a line.
    Everything,
    List(Box<Shape>),
    Object(BTreeMap<String, Shape>),
    Named(String),
}

/// The shapes of all answers.
struct Shapes {
    of_calls: HashMap<(Method, &'static str), Shape>,
    named: BTreeMap<String, Shape>,
}

fn shapes() -> &'static Shapes {
    static SHAPES: OnceLock<Shapes> = OnceLock::new();
    SHAPES.get_or_init(|| {
        let mut schemas = Schemas::default();
        schemas.set_direction(Direction::Out(DecimalForm::Number));
        let value = |schema| serde_json::to_value(schema).unwrap_or_default();
        let table = routes::table().into_iter().filter(|endpoint| endpoint.access == Access::Key);
        let of_calls = table.filter_map(|endpoint| {
            let (_, describe) = endpoint.answer?;
            Some(((endpoint.method, endpoint.path), Shape::of(&value(describe(&mut schemas)))))
        });
        let of_calls = of_calls.collect();
        let named = schemas.into_named().map(|(name, schema)| (name, Shape::of(&value(schema))));
        Shapes { of_calls, named: named.collect() }
    })
}

fn shape_of(response: &ServiceResponse<BoxBody>) -> Option<&'static Shape> {
    let Matched(path) = response.request().app_data::<Matched>()?;
    let method = match response.request().method() {
        &Method::HEAD => Method::GET,
        method => method.clone(),
    };
    shapes().of_calls.get(&(method, *path))
}

impl Shape {
    /// Of what a schema describes.
    fn of(schema: &Value) -> Self {
        if let Some(reference) = schema["$ref"].as_str() {
            return Self::Named(reference.rsplit('/').next().unwrap_or_default().to_owned());
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            return choices.iter().map(Self::of).find(|shape| *shape != Self::Whole).unwrap_or(Self::Whole);
        }
        if let Some(properties) = schema["properties"].as_object() {
            return Self::Object(properties.iter().map(|(name, field)| (name.clone(), Self::of(field))).collect());
        }
        match schema["type"].as_str() {
            Some("array") => Self::List(Box::new(Self::of(&schema["items"]))),
            Some(_) if schema["format"] == DECIMAL => Self::Decimal,
            Some(_) => Self::Whole,
            None => Self::Everything,
        }
    }
}

/// JSON that the service wrote, with the decimals of a shape as text and all else to the byte.
fn with_texts(json: &Bytes, shape: &Shape) -> BytesMut {
    let mut writer = Writer { json, at: 0, copied: 0, out: BytesMut::with_capacity(json.len() + json.len() / 8) };
    writer.value(shape);
    writer.copy_to(json.len());
    writer.out
}

struct Writer<'j> {
    json: &'j [u8],
    at: usize,
    copied: usize,
    out: BytesMut,
}

impl<'j> Writer<'j> {
    fn value(&mut self, shape: &Shape) {
        if let Shape::Named(name) = shape {
            return self.value(shapes().named.get(name).unwrap_or(&Shape::Whole));
        }
        self.skip(|byte| byte.is_ascii_whitespace());
        match self.json.get(self.at) {
            Some(b'{') => self.items(b'}', shape, true),
            Some(b'[') => self.items(b']', shape, false),
            Some(b'"') => {
                self.text();
            }
            Some(b'-' | b'0'..=b'9') => {
                let begin = self.at;
                self.skip(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'));
                if matches!(shape, Shape::Decimal | Shape::Everything) {
                    self.copy_to(begin);
                    self.out.extend_from_slice(b"\"");
                    self.copy_to(self.at);
                    self.out.extend_from_slice(b"\"");
                }
            }
            _ => self.skip(|byte| byte.is_ascii_alphabetic()),
        }
    }

    /// The items of an object or a list, up to its `end`.
    fn items(&mut self, end: u8, shape: &Shape, has_names: bool) {
        self.at += 1;
        loop {
            self.skip(|byte| byte == b',' || byte.is_ascii_whitespace());
            match self.json.get(self.at) {
                None => return,
                Some(byte) if *byte == end => {
                    self.at += 1;
                    return;
                }
                Some(_) => {}
            }
            let name = if has_names { self.text() } else { &[][..] };
            self.skip(|byte| byte == b':' || byte.is_ascii_whitespace());
            let before = self.at;
            match shape {
                Shape::Everything => self.value(shape),
                Shape::List(item) if !has_names => self.value(item),
                Shape::Object(fields) if has_names => {
                    let field = std::str::from_utf8(name).ok().and_then(|name| fields.get(name));
                    self.value(field.unwrap_or(&Shape::Whole));
                }
                _ => self.value(&Shape::Whole),
            }
            if self.at == before {
                // Nothing that the service writes: it stays as it is.
                self.at = self.json.len();
            }
        }
    }

    /// What stands between the quotes of the text that begins here.
    fn text(&mut self) -> &'j [u8] {
        let begin = self.at + 1;
        self.at = begin;
        while let Some(byte) = self.json.get(self.at) {
            match byte {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        let end = self.at.min(self.json.len());
        self.at = (end + 1).min(self.json.len());
        self.json.get(begin..end).unwrap_or_default()
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        while self.json.get(self.at).is_some_and(|byte| is_skipped(*byte)) {
            self.at += 1;
        }
    }

    fn copy_to(&mut self, end: usize) {
        self.out.extend_from_slice(self.json.get(self.copied..end).unwrap_or_default());
        self.copied = end;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decimals_become_text_and_nothing_else_changes() {
        let schema = json!({"properties": {
            "amount": {"type": "number", "format": "decimal"},
            "perhaps": {"oneOf": [{"type": "number", "format": "decimal"}, {"type": "null"}]},
            "version": {"type": "integer"},
            "lines": {"type": "array", "items": {"properties": {"base": {"type": "number", "format": "decimal"}}}},
            "metadata": {"type": "object"},
            "trace": {},
        }});
        let shape = Shape::of(&schema);
        #[rustfmt::skip]
        let cases = [
            // answer,                                         the same with decimals as text,                     why
            (r#"{"amount":0.10}"#,                              r#"{"amount":"0.10"}"#,                            "with all its digits"),
            (r#"{"amount":-1e-7,"version":3}"#,                 r#"{"amount":"-1e-7","version":3}"#,               "a whole number stays"),
            (r#"{"perhaps":null}"#,                             r#"{"perhaps":null}"#,                             "there is none"),
            (r#"{"perhaps": 12345678901234567890.5}"#,          r#"{"perhaps": "12345678901234567890.5"}"#,        "more than a float holds"),
            (r#"{"lines":[{"base":1},{"base":2.5}]}"#,          r#"{"lines":[{"base":"1"},{"base":"2.5"}]}"#,      "in a list"),
            (r#"{"metadata":{"amount":1,"x":[2]},"amount":3}"#, r#"{"metadata":{"amount":1,"x":[2]},"amount":"3"}"#, "free-form is as it was sent"),
            (r#"{"trace":{"n":[1,{"m":2}],"is":true}}"#,        r#"{"trace":{"n":["1",{"m":"2"}],"is":true}}"#,    "all numbers of an explanation"),
            (r#"{"name":"a\"},{\\","amount":1}"#,               r#"{"name":"a\"},{\\","amount":"1"}"#,             "quotes and braces in a text"),
            (r#"{"é":1,"amount":2}"#,                           r#"{"é":1,"amount":"2"}"#,                         "a name that is not ASCII"),
            (r#"{}"#,                                           r#"{}"#,                                           "empty"),
            (r#"{"amount":"#,                                   r#"{"amount":"#,                                   "cut off: it ends, and nothing is made up"),
        ];
        for (json, expected, why) in cases {
            let written = with_texts(&Bytes::from_static(json.as_bytes()), &shape);
            assert_eq!(std::str::from_utf8(&written).expect("text"), expected, "{why}");
        }
    }

    #[test]
    fn the_first_form_of_json_that_is_accepted_counts() {
        #[rustfmt::skip]
        let cases = [
            // Accept,                                                    text,  why
            ("application/json; numbers=text",                             true,  "as documented"),
            ("application/json;numbers=\"text\";q=0.9",                   true,  "quoted, and with a weight"),
            ("text/csv, Application/JSON;Numbers=Text",                    true,  "names have no case"),
            ("application/json, application/json; numbers=text",           false, "numbers come first"),
            ("application/json; numbers=number",                           false, "the usual form, by name"),
            ("*/*",                                                        false, "anything"),
        ];
        for (accept, expected, why) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(wants_text(&headers), expected, "{accept}: {why}");
        }
    }
}
