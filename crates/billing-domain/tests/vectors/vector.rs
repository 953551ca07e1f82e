//! One vector: what goes in, what should come out, and how the two are compared.

use std::collections::BTreeMap;

use billing_domain::BigDecimal;
use billing_domain::decimal::{divide, parse_property, plain};
use billing_domain::money::round_half_away_from_zero;
use serde_json::Value;
use time::format_description::well_known::Rfc3339;
use time::{Date, OffsetDateTime, UtcOffset};

/// What the engine made of a vector, by the keys of its expectation; or why it cannot say.
pub type Outcome = Result<BTreeMap<&'static str, Value>, &'static str>;

pub struct Vector {
    pub id: String,
    pub op: String,
    pub fit: String,
    pub inputs: Value,
    pub expected: Value,
}

/// Keys of an expectation that comment on it.
const COMMENTS: [&str; 7] = ["mode", "round_dp", "tolerance", "scale", "rounding", "amount_formula", "recurring_value"];

impl Vector {
    pub fn all() -> Vec<Self> {
        let file: Value = serde_json::from_str(include_str!("vectors.json")).expect("vectors.json is JSON");
        let text = |vector: &Value, key: &str| vector[key].as_str().expect(key).to_owned();
        let read = |vector: &Value| Self {
            id: text(vector, "id"),
            op: text(vector, "op"),
            fit: text(vector, "spec_fit"),
            inputs: vector["inputs"].clone(),
            expected: vector["expected"].clone(),
        };
        file["vectors"].as_array().expect("a list").iter().map(read).collect()
    }

    /// Whether what the engine made is what `expected` says, comments aside.
    pub fn agrees(&self, made: &BTreeMap<&'static str, Value>, expected: &Value) -> bool {
        let decimals = self.expected["round_dp"].as_u64().unwrap_or(9) as u8;
        let wanted = expected.as_object().expect("an object");
        let mut compared = wanted.iter().filter(|(key, _)| !COMMENTS.contains(&key.as_str())).peekable();
        assert!(compared.peek().is_some(), "{}: nothing to compare", self.id);
        compared.all(|(key, value)| {
            made.get(key.as_str()).is_some_and(|made| canonical(made, decimals) == canonical(value, decimals))
        })
    }

    pub fn text(&self, key: &str) -> &str {
        self.inputs[key].as_str().unwrap_or_else(|| panic!("{}: {key} is not text", self.id))
    }

    pub fn number(&self, key: &str) -> BigDecimal {
        number(&self.inputs[key])
    }

    pub fn numbers(&self, key: &str) -> Vec<BigDecimal> {
        self.list(key).iter().map(number).collect()
    }

    pub fn list(&self, key: &str) -> &[Value] {
        self.inputs[key].as_array().unwrap_or_else(|| panic!("{}: {key} is not a list", self.id))
    }

    pub fn count(&self, key: &str) -> u32 {
        self.inputs[key].as_u64().map_or(1, |count| u32::try_from(count).expect("a small count"))
    }

    pub fn instant(&self, key: &str) -> OffsetDateTime {
        instant(self.text(key))
    }

    pub fn has(&self, key: &str) -> bool {
        !self.inputs[key].is_null()
    }
}

pub fn number(value: &Value) -> BigDecimal {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    parse_property(&text).unwrap_or_else(|| panic!("{text} is not a number"))
}

/// An RFC 3339 instant, or the UTC midnight of a date.
pub fn instant(text: &str) -> OffsetDateTime {
    let text = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    OffsetDateTime::parse(&text, &Rfc3339).unwrap_or_else(|_| panic!("{text} is not an instant"))
}

pub fn shown(instant: OffsetDateTime) -> Value {
    instant.to_offset(UtcOffset::UTC).format(&Rfc3339).expect("in range").into()
}

pub fn shown_date(date: Date) -> Value {
    date.to_string().into()
}

pub fn shown_numbers<'n>(numbers: impl IntoIterator<Item = &'n BigDecimal>) -> Value {
    numbers.into_iter().map(plain).collect::<Vec<_>>().into()
}

/// One spelling for equal values: fractions such as `1+13/31` as decimals, instants in UTC.
fn canonical(value: &Value, decimals: u8) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| canonical(item, decimals)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(k, v)| format!("{k}: {}", canonical(v, decimals))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::String(text) => {
            let number = sum(text).map(|number| plain(&round_half_away_from_zero(&number, decimals)));
            let instant = || OffsetDateTime::parse(text, &Rfc3339).ok().map(|instant| shown(instant).to_string());
            number.or_else(instant).unwrap_or_else(|| text.clone())
        }
        Value::Number(number) => canonical(&number.to_string().into(), decimals),
        Value::Bool(_) | Value::Null => value.to_string(),
    }
}

fn sum(text: &str) -> Option<BigDecimal> {
    text.split('+').map(quotient).sum()
}

fn quotient(text: &str) -> Option<BigDecimal> {
    match text.split_once('/') {
        Some((top, bottom)) => Some(divide(&long_number(top)?, &long_number(bottom)?)),
        None => long_number(text),
    }
}

/// A number with the sixty decimals of a quotient.
fn long_number(text: &str) -> Option<BigDecimal> {
    billing_domain::decimal::number::deserialize(Value::from(text)).ok()
}

/// The fields of an outcome.
#[macro_export]
macro_rules! made {
    ($($key:literal: $value:expr),* $(,)?) => { Ok(std::collections::BTreeMap::from([$(($key, serde_json::Value::from($value))),*])) };
}
