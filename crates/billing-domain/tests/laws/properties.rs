//! The properties of events: whatever way they are written, they say what a parser of JSON says.

use billing_domain::BigDecimal;
use billing_domain::decimal::parse_property;
use billing_domain::event::Properties;
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::laws;

fn any_text() -> impl Strategy<Value = String> {
    // Characters that mean something in JSON, and some beyond one byte, more often than others.
    prop::collection::vec(prop::sample::select("ab\"\\/{}[]:, \n\u{1}\u{7f}é€😀1-.e".chars().collect::<Vec<_>>()), 0..6)
        .prop_map(|characters| characters.into_iter().collect())
}

fn any_number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?",
        "-?[1-9](\\.[0-9]{1,3})?[eE][+-]?[0-9]{1,3}",
    ]
}

/// A value, and one way to write it.
fn any_json() -> impl Strategy<Value = String> {
    let text = || {
        (any_text(), any::<bool>()).prop_map(|(text, by_number)| match by_number {
            false => Value::from(text).to_string(),
            true => {
                let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
                format!("\"{units}\"")
            }
        })
    };
    let plain =
        prop_oneof![any_number(), text(), prop::sample::select(vec!["true", "false", "null"]).prop_map(str::to_owned)];
    plain.prop_recursive(2, 8, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[ {} ]", items.join(" , "))),
            prop::collection::vec((text(), inner), 0..3).prop_map(|fields| object(&fields)),
        ]
    })
}

fn object(fields: &[(String, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!(" {name} :\t{value}")).collect();
    format!("{{{} }}", fields.join(","))
}

fn any_object() -> impl Strategy<Value = String> {
    let name = any_text().prop_map(|name| Value::from(name).to_string());
    prop::collection::vec((name, any_json()), 0..6).prop_map(|fields| object(&fields))
}

/// What a parser of JSON says of a value, as a number and as a text.
fn expected(value: &Value) -> (Option<BigDecimal>, Option<String>) {
    match value {
        Value::Number(number) => {
            let found = parse_property(number.as_str());
            let text = found.as_ref().map_or(number.to_string(), BigDecimal::to_plain_string);
            (found, Some(text))
        }
        Value::String(text) => (parse_property(text), Some(text.clone())),
        Value::Bool(flag) => (None, Some(flag.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => (None, None),
    }
}

proptest! {
    #![proptest_config(laws())]

    #[test]
    fn properties_say_what_a_parser_says(json in any_object(), missing in any_text()) {
        let properties: Properties = json.parse().expect("an object");
        let map: Map<String, Value> = serde_json::from_str(&json).expect("an object");
        for (name, value) in &map {
            let (number, text) = expected(value);
            prop_assert_eq!(properties.number(name), number, "{} in {}", name, json);
            prop_assert_eq!(properties.text(name).map(|text| text.into_owned()), text, "{} in {}", name, json);
        }
        prop_assert_eq!(properties.get(&missing).is_some(), map.contains_key(&missing));
        prop_assert_eq!(properties.is_empty(), map.is_empty());
        prop_assert_eq!(&Properties::from(map), &properties);
        let again: Properties = properties.as_json().parse().expect("an object");
        prop_assert_eq!(again.as_json(), properties.as_json());
    }

    #[test]
    fn no_text_is_taken_for_properties_that_a_parser_refuses(json in any_object(), cut in any::<prop::sample::Index>()) {
        let places: Vec<usize> = json.char_indices().map(|(place, _)| place).collect();
        let part = &json[..places[cut.index(places.len())]];
        prop_assert!(part.parse::<Properties>().is_err(), "{}", part);
    }
}
