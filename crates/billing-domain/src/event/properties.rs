//! The properties of events.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use bigdecimal::BigDecimal;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::{decimal, text};

/// The properties of an event: a free-form JSON object.
///
/// Numbers keep every digit they were sent with. One that is too large to count (see [`decimal::parse_property`]) is kept as
/// text. Of two equal names the last counts.
///
/// They are kept as JSON, with the place of each field: of many that come in few are ever looked at.
///
/// ```
/// use billing_domain::event::Properties;
///
/// let properties: Properties = r#"{"region": "eu", "amount": 1.50}"#.parse()?;
/// assert_eq!(properties.text("region").as_deref(), Some("eu"));
/// assert_eq!(properties.number("amount"), Some("1.50".parse()?));
/// assert_eq!(properties.as_json(), r#"{"region":"eu","amount":1.50}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Properties {
    json: Box<str>,
    /// In the order of their names' JSON.
    fields: Box<[Field]>,
}

/// Among so many fields one is found by comparing names: most differ in length.
const FIELDS_COMPARED: usize = 8;

/// Where a field is in the JSON.
#[derive(Clone)]
struct Field {
    /// Between the quotes.
    name: Range<usize>,
    value: Range<usize>,
}

impl Properties {
    /// None.
    pub fn new() -> Self {
        Self { json: "{}".into(), fields: Box::default() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// All of them as JSON, without space between the fields.
    pub fn as_json(&self) -> &str {
        &self.json
    }

    /// The memory that they take, in bytes.
    pub fn size(&self) -> usize {
        self.json.len() + size_of_val(&*self.fields)
    }

    /// Each name with its value.
    pub fn to_map(&self) -> Map<String, Value> {
        // It was read before.
        serde_json::from_str(&self.json).unwrap_or_default()
    }

    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.raw(name)?).ok()
    }

    /// The number in a property: a JSON number or a numeric string of bounded size, otherwise nothing.
    pub fn number(&self, name: &str) -> Option<BigDecimal> {
        let raw = self.raw(name)?;
        match raw.as_bytes().first()? {
            b'"' => decimal::parse_property(&text::of_json(raw)?),
            b'-' | b'0'..=b'9' => decimal::parse_property(raw),
            _ => None,
        }
    }

    /// The text of a property, as subscription filters compare it: strings as they are, numbers in plain notation with the
    /// decimals they were sent with, booleans as `true` and `false`.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        let raw = self.raw(name)?;
        match raw.as_bytes().first()? {
            b'"' => text::of_json(raw),
            b't' | b'f' => Some(raw.into()),
            b'-' | b'0'..=b'9' => Some(decimal::parse_property(raw)?.to_plain_string().into()),
            _ => None,
        }
    }

    /// The JSON of a property.
    fn raw(&self, name: &str) -> Option<&str> {
        let (name, json) = (encoded(name), self.json.as_bytes());
        let of = |field: &Field| &json[field.name.clone()];
        let field = match &*self.fields {
            few if few.len() <= FIELDS_COMPARED => few.iter().find(|field| of(field) == name.as_bytes())?,
            many => &many[many.binary_search_by(|field| of(field).cmp(name.as_bytes())).ok()?],
        };
        Some(&self.json[field.value.clone()])
    }

    /// Puts fields together; `None` if two names are equal. Names and values are JSON.
    fn of_fields<'f>(fields: &[(&'f str, &'f str)]) -> Option<Self> {
        let length: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut json = String::with_capacity(length + 1);
        let mut places = Vec::with_capacity(fields.len());
        json.push('{');
        for (name, value) in fields {
            json.push_str(if places.is_empty() { "\"" } else { ",\"" });
            let named = json.len()..json.len() + name.len();
            json.push_str(name);
            json.push_str("\":");
            places.push(Field { name: named, value: json.len()..json.len() + value.len() });
            json.push_str(value);
        }
        json.push('}');
        places.sort_unstable_by(|a, b| json[a.name.clone()].cmp(&json[b.name.clone()]));
        let are_distinct = places.windows(2).all(|pair| json[pair[0].name.clone()] != json[pair[1].name.clone()]);
        are_distinct.then(|| Self { json: json.into(), fields: places.into() })
    }
}

impl Default for Properties {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.json)
    }
}

impl PartialEq for Properties {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json || self.to_map() == other.to_map()
    }
}

/// Reads a JSON object.
impl FromStr for Properties {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        let plain = serde_json::from_str::<Plain<'_>>(text).ok().and_then(|plain| Self::of_fields(&plain.0));
        match plain {
            Some(properties) => Ok(properties),
            None => serde_json::from_str::<Map<String, Value>>(text).map(Self::from),
        }
    }
}

impl From<Map<String, Value>> for Properties {
    fn from(map: Map<String, Value>) -> Self {
        let json = |value: Value| countable(value).to_string();
        let fields: Vec<_> = map.into_iter().map(|(name, value)| (encoded(&name).into_owned(), json(value))).collect();
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        // The names of a map are distinct.
        Self::of_fields(&fields).unwrap_or_default()
    }
}

impl FromIterator<(String, Value)> for Properties {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(fields: I) -> Self {
        Self::from(fields.into_iter().collect::<Map<_, _>>())
    }
}

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_map().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}

/// The fields of an object that needs no second look: names without escapes, texts without letters by number, no lists or
/// objects, and no number that is too large.
struct Plain<'t>(Vec<(&'t str, &'t str)>);

impl<'de: 't, 't> Deserialize<'de> for Plain<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Plain<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of plain values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Plain<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<&str, &RawValue>()? {
                    let value = value.get();
                    let is_plain = match value.as_bytes().first() {
                        Some(b'-' | b'0'..=b'9') => is_countable(value),
                        // Half a pair of surrogates is spelled so, and is no text.
                        Some(b'"') => !value.contains("\\u"),
                        Some(b'{' | b'[') | None => false,
                        Some(_) => true,
                    };
                    if !is_plain {
                        return Err(de::Error::custom("a value needs a second look"));
                    }
                    fields.push((name, value));
                }
                Ok(Plain(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

fn is_countable(number: &str) -> bool {
    decimal::parse_property(number).is_some()
}

/// A value with the numbers in it that are too large turned into text.
fn countable(value: Value) -> Value {
    match value {
        Value::Number(number) if !is_countable(number.as_str()) => Value::String(number.to_string()),
        Value::Array(values) => values.into_iter().map(countable).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, countable(value))).collect(),
        other => other,
    }
}

/// What stands between the quotes of a string's JSON.
fn encoded(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| matches!(byte, b'"' | b'\\' | ..b' ')) {
        return text.into();
    }
    let json = Value::from(text).to_string();
    json[1..json.len() - 1].to_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Properties {
        json.parse().expect("an object")
    }

    #[test]
    fn keeps_what_was_sent() {
        #[rustfmt::skip]
        let cases = [
            // sent,                               kept,                             why
            ("{}",                                 "{}",                             "nothing"),
            (r#" { "b" : 1.50, "a":"x y" } "#,     r#"{"b":1.50,"a":"x y"}"#,        "without space between the fields"),
            (r#"{"a":true,"b":null,"c":-0}"#,      r#"{"a":true,"b":null,"c":-0}"#,  "words, and a zero of its own"),
            (r#"{"a":"\/\n"}"#,                    r#"{"a":"\/\n"}"#,                "a text as it was spelled"),
            (r#"{"a":"\u0041\ud83d\ude00"}"#,      r#"{"a":"A😀"}"#,                 "but for letters by number"),
            (r#"{"\u0061":1}"#,                    r#"{"a":1}"#,                     "a name has one spelling"),
            (r#"{"q\"\\":1}"#,                     r#"{"q\"\\":1}"#,                 "a name that needs escapes"),
            (r#"{"a":1,"a":2}"#,                   r#"{"a":2}"#,                     "the last of two"),
            (r#"{"a":1,"\u0061":2}"#,              r#"{"a":2}"#,                     "the last of two, spelled otherwise"),
            (r#"{"b":[1, {"c": 2}],"a":1}"#,       r#"{"a":1,"b":[1,{"c":2}]}"#,     "lists and objects"),
            ("{\"n\":123456789012345678901.5}",    "{\"n\":123456789012345678901.5}", "more digits than a float has"),
            (r#"{"n":1e31}"#,                      r#"{"n":"1e+31"}"#,               "too large to count"),
            (r#"{"n":[1e31]}"#,                    r#"{"n":["1e+31"]}"#,             "too large to count, further in"),
        ];
        for (sent, kept, why) in cases {
            let properties = of(sent);
            assert_eq!(properties.as_json(), kept, "{why}");
            assert_eq!(of(kept), properties, "{why}");
            assert_eq!(Properties::from(properties.to_map()), properties, "{why}");
            assert_eq!(serde_json::from_str::<Properties>(sent).expect("an object"), properties, "{why}");
            assert_eq!(serde_json::to_value(&properties).expect("json"), Value::Object(properties.to_map()), "{why}");
            assert_eq!(properties.is_empty(), kept == "{}", "{why}");
        }
        for no_object in
            ["", "[]", "null", "1", r#"{"a":1"#, r#"{"a":01}"#, r#"{"a":1}{}"#, r#"{"a":nul}"#, r#"{"a":"\ud83d"}"#]
        {
            assert!(no_object.parse::<Properties>().is_err(), "{no_object}");
        }
    }

    #[test]
    fn a_property_is_found_by_its_name() {
        let names = ["b", "a", "", "q\"", "A", "é", "aa", "\n", "ab", "0", "z z"];
        for count in [3, FIELDS_COMPARED, names.len()] {
            let fields: Map<String, Value> =
                names[..count].iter().zip(1..).map(|(name, i)| (name.to_string(), i.into())).collect();
            let properties = of(&Value::Object(fields).to_string());
            for (name, value) in names.iter().zip(1..) {
                let found = (properties.number(name), properties.get(name));
                let is_there = value <= count;
                let expected = is_there.then(|| (BigDecimal::from(value as u64), Value::from(value))).unzip();
                assert_eq!(found, expected, "{name:?} of {count}");
            }
            for name in ["c", "q", "q\\\"", "aaa"] {
                assert_eq!((properties.number(name), properties.text(name), properties.get(name)), (None, None, None));
            }
        }
    }

    #[test]
    fn numbers_and_texts() {
        #[rustfmt::skip]
        let cases = [
            // json,             number,           text,              why
            ("3",                Some("3"),        Some("3"),         "an integer"),
            ("-1.50",            Some("-1.50"),    Some("-1.50"),     "decimals are kept"),
            ("1e2",              Some("100"),      Some("100"),       "exponents are written out"),
            (r#""3.50""#,        Some("3.50"),     Some("3.50"),      "a numeric string"),
            (r#""\u0033""#,      Some("3"),        Some("3"),         "a numeric string with an escape"),
            ("123456789012345678901234567890.5",
                                 Some("123456789012345678901234567890.5"),
                                                   Some("123456789012345678901234567890.5"),
                                                                      "more digits than a float has"),
            (r#""abc""#,         None,             Some("abc"),       "a string as it is"),
            (r#""a\tb""#,        None,             Some("a\tb"),      "a string with an escape"),
            (r#""""#,            None,             Some(""),          "an empty string"),
            ("true",             None,             Some("true"),      "a boolean by name"),
            ("null",             None,             None,              "nothing"),
            ("[1]",              None,             None,              "a list has neither"),
            (r#"{"a":1}"#,       None,             None,              "an object has neither"),
            ("1e31",             None,             Some("1e+31"),     "an exponent beyond 30"),
        ];
        for (json, number, text, why) in cases {
            let properties = of(&format!(r#"{{"x":0,"p":{json},"z":0}}"#));
            let number = number.map(|text| text.parse::<BigDecimal>().expect("decimal"));
            assert_eq!(properties.number("p"), number, "{json}: {why}");
            assert_eq!(properties.text("p").as_deref(), text, "{json}: {why}");
        }
    }
}
