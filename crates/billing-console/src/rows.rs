//! Forms with rows: fields whose names have numbers in them, `components.0.tiers.1.range_end`, as the API names them where something is
//! wrong with one. Rows are added and taken away by the form itself, so that it needs no script.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::visit::Fields;

/// What was typed, in the order of the form. The rows of each list are numbered from 0, without holes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    fields: Vec<(String, String)>,
    places: BTreeMap<String, usize>,
    lists: BTreeMap<String, usize>,
}

impl Rows {
    /// The fields of a form that are called like one of `known`, where `*` stands for any number; others are left out.
    pub fn read(filled: &Fields, known: &BTreeSet<String>) -> Self {
        let is_known = |name: &str| known.contains(&pattern(name));
        Self::numbered(filled.0.iter().filter(|(name, _)| is_known(name)).cloned())
    }

    fn numbered(fields: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut numbers: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        let mut rows = Self::default();
        for (name, value) in fields {
            let mut path = String::with_capacity(name.len());
            for part in name.split('.') {
                let part = if is_number(part) {
                    let seen = numbers.entry(path.clone()).or_default();
                    let next = seen.len();
                    seen.entry(part.to_owned()).or_insert(next).to_string()
                } else {
                    part.to_owned()
                };
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&part);
            }
            rows.put(path, value);
        }
        rows.lists = numbers.into_iter().map(|(list, seen)| (list, seen.len())).collect();
        rows
    }

    fn put(&mut self, name: String, value: String) {
        // Of a name that comes twice the first counts, as everywhere.
        if !self.places.contains_key(&name) {
            self.places.insert(name.clone(), self.fields.len());
            self.fields.push((name, value));
        }
    }

    /// What stands in a field, as it was typed.
    pub fn value(&self, name: &str) -> &str {
        self.places.get(name).map_or("", |place| &self.fields[*place].1)
    }

    /// Whether there is such a field.
    pub fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// How many rows a list has.
    pub fn count(&self, list: &str) -> usize {
        self.lists.get(list).copied().unwrap_or(0)
    }

    /// Sets a field that is in no list and was not set.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.put(name.into(), value.into());
    }

    /// Adds a row to a list: the fields of its own with what stands in them at first. Its name.
    pub fn add<'f>(&mut self, list: &str, fields: impl IntoIterator<Item = (&'f str, String)>) -> String {
        let row = format!("{list}.{}", self.count(list));
        for (name, value) in fields {
            self.put(if name.is_empty() { row.clone() } else { format!("{row}.{name}") }, value);
        }
        *self.lists.entry(list.to_owned()).or_default() += 1;
        row
    }

    /// Takes a row away, with all that is below it; those behind it move up.
    pub fn remove(&mut self, row: &str) {
        if !row.rsplit('.').next().is_some_and(is_number) {
            return;
        }
        let below = format!("{row}.");
        let fields = std::mem::take(&mut self.fields).into_iter();
        *self = Self::numbered(fields.filter(|(name, _)| name != row && !name.starts_with(&below)));
    }

    /// The same as the API takes it: a row is there also when nothing was typed into it, a field is not.
    pub fn json(&self) -> Map<String, Value> {
        let mut body = Map::new();
        for (name, value) in &self.fields {
            insert(&mut body, name, value.trim());
        }
        body
    }
}

/// The name with `*` for each number.
pub fn pattern(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
    parts.join(".")
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.len() <= 6 && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn insert(into: &mut Map<String, Value>, name: &str, value: &str) {
    let Some((first, rest)) = name.split_once('.') else {
        if !value.is_empty() {
            into.insert(name.to_owned(), value.into());
        }
        return;
    };
    let (number, below) = rest.split_once('.').unwrap_or((rest, ""));
    if is_number(number) {
        let Ok(place) = number.parse::<usize>() else { return };
        let list = into.entry(first).or_insert_with(|| Value::Array(Vec::new()));
        let Some(rows) = list.as_array_mut() else { return };
        if rows.len() <= place {
            rows.resize_with(place + 1, || Value::Object(Map::new()));
        }
        if below.is_empty() {
            rows[place] = value.into();
        } else if let Some(row) = rows[place].as_object_mut() {
            insert(row, below, value);
        }
    } else if !value.is_empty() {
        let object = into.entry(first).or_insert_with(|| Value::Object(Map::new()));
        if let Some(object) = object.as_object_mut() {
            insert(object, rest, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KNOWN: [&str; 6] =
        ["name", "many.*.name", "many.*.of.unit", "many.*.of.count", "many.*.parts.*.size", "ids.*"];

    fn read(sent: &str) -> Rows {
        Rows::read(&Fields::parse(sent), &KNOWN.map(str::to_owned).into())
    }

    #[test]
    fn forms_are_read_as_the_api_takes_them() {
        #[rustfmt::skip]
        let cases = [
            // sent,                                                      body,                                                          why
            ("",                                                          json!({}),                                                     "nothing"),
            ("name=+a+b+",                                                json!({"name": "a b"}),                                        "without space around it"),
            ("name=&many.0.name=",                                        json!({"many": [{}]}),                                         "an empty field is none, an empty row is one"),
            ("many.0.name=a&many.1.name=b",                               json!({"many": [{"name": "a"}, {"name": "b"}]}),               "rows in their order"),
            ("many.3.name=a&many.7.name=b",                               json!({"many": [{"name": "a"}, {"name": "b"}]}),               "without holes"),
            ("many.7.name=b&many.3.name=a",                               json!({"many": [{"name": "b"}, {"name": "a"}]}),               "as they stand in the form"),
            ("many.10.name=b&many.9.name=a&many.9.of.unit=x",             json!({"many": [{"name": "b"}, {"name": "a", "of": {"unit": "x"}}]}), "not as text is sorted"),
            ("many.0.of.unit=&many.0.of.count=",                          json!({"many": [{}]}),                                         "nor is there an object without fields"),
            ("many.0.parts.0.size=1&many.0.parts.5.size=2&many.4.parts.5.size=3",
                json!({"many": [{"parts": [{"size": "1"}, {"size": "2"}]}, {"parts": [{"size": "3"}]}]}),                               "rows of rows"),
            ("ids.0=a&ids.4=b",                                           json!({"ids": ["a", "b"]}),                                    "a list of texts"),
            ("name=a&name=b",                                             json!({"name": "a"}),                                          "the first counts"),
            ("other=a&many.x.name=b&many.name=c&many.0=d&name.0=e&many.0.0.name=f&.=g&many.99999999999.name=h",
                json!({}),                                                                                                               "what the form does not have"),
        ];
        for (sent, body, why) in cases {
            assert_eq!(Value::Object(read(sent).json()), body, "{sent}: {why}");
        }
    }

    #[test]
    fn rows_come_and_go_with_all_that_was_typed() {
        let mut rows = read("name=n&many.0.name=a&many.0.parts.0.size=1&many.0.parts.1.size=2&many.1.name=b");
        assert_eq!((rows.count("many"), rows.count("many.0.parts"), rows.count("many.1.parts")), (2, 2, 0));
        assert_eq!(rows.add("many.1.parts", [("size", "9".to_owned())]), "many.1.parts.0");
        assert_eq!((rows.value("many.1.parts.0.size"), rows.count("many.1.parts")), ("9", 1));
        rows.remove("many.0.parts.0");
        assert_eq!((rows.value("many.0.parts.0.size"), rows.has("many.0.parts.1.size")), ("2", false));
        rows.remove("many.0");
        let left = json!({"name": "n", "many": [{"name": "b", "parts": [{"size": "9"}]}]});
        assert_eq!(Value::Object(rows.json()), left);
        for nothing in ["many.5", "many", "many.0.parts.7", "", "name"] {
            let mut same = rows.clone();
            same.remove(nothing);
            assert_eq!(same, rows, "{nothing:?} is no row");
        }
        let mut many = Rows::default();
        for n in 0..12 {
            many.add("many", [("name", n.to_string())]);
        }
        many.remove("many.1");
        assert_eq!(
            (many.value("many.1.name"), many.value("many.10.name")),
            ("2", "11"),
            "twelve less one, in their order"
        );
    }
}
