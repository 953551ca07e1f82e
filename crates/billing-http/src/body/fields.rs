//! Some fields of a JSON object, found without reading what is in them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields `names` of the object that `json` holds, unread; null is as good as missing. `other` is told the names of
/// the rest.
///
/// # Errors
/// When the text holds no JSON object.
pub fn read_fields<'t, const N: usize>(
    json: &'t str,
    names: &[&str; N],
    other: &mut dyn FnMut(&str),
) -> serde_json::Result<[Option<&'t RawValue>; N]> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let fields = deserializer.deserialize_map(Fields { names, other })?;
    deserializer.end()?;
    Ok(fields)
}

struct Fields<'n, const N: usize> {
    names: &'n [&'n str; N],
    other: &'n mut dyn FnMut(&str),
}

impl<'de, const N: usize> Visitor<'de> for Fields<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(place) = map.next_key_seed(Name { names: self.names, other: &mut *self.other })? {
            match place {
                Some(place) => found[place] = map.next_value()?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// One name: its place among those that are looked for.
struct Name<'n> {
    names: &'n [&'n str],
    other: &'n mut dyn FnMut(&str),
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let place = self.names.iter().position(|known| *known == name);
        if place.is_none() {
            (self.other)(name);
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_the_rest_is_told() {
        #[rustfmt::skip]
        let cases: [(&str, Option<([Option<&str>; 2], &[&str])>, &str); 7] = [
            (r#"{}"#,                        Some(([None, None], &[])),                  "nothing"),
            (r#"{"b":[1],"a":"x"}"#,         Some(([Some("\"x\""), Some("[1]")], &[])),  "in any order"),
            (r#"{"c":{"a":1},"b":null}"#,    Some(([None, None], &["c"])),               "another, and null"),
            (r#"{"\u0061":1,"d\n":2}"#,      Some(([Some("1"), None], &["d\n"])),        "escaped names"),
            (r#"[1, 2]"#,                    None,                                       "a list"),
            (r#"7"#,                         None,                                       "a number"),
            (r#"{} {}"#,                     None,                                       "more than one value"),
        ];
        for (json, expected, why) in cases {
            let mut others = Vec::new();
            let found = read_fields(json, &["a", "b"], &mut |name| others.push(name.to_owned())).ok();
            let found = found.map(|fields| fields.map(|field| field.map(RawValue::get)));
            assert_eq!(found, expected.map(|(fields, _)| fields), "{json}: {why}");
            if let Some((_, names)) = expected {
                assert_eq!(others, names, "{json}: {why}");
            }
        }
    }
}
