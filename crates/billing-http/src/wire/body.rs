//! Reading JSON values into the types of the wire, every fault at once.

use billing_domain::{FieldCode, FieldError, FieldErrors};
use serde_json::{Map, Value};

/// A type that a JSON value can be read as.
pub trait FromJson: Sized {
    /// Reads the value, which is not null.
    ///
    /// # Errors
    /// Everything that is wrong with it; paths are relative to the value.
    fn from_json(value: Value) -> Result<Self, FieldErrors>;

    /// Reads the value and goes on when it is bad: what is wrong is noted, and something harmless stands in for it, so that
    /// what is around it can be held against the rules as well. Nothing that was read like this is ever acted upon.
    /// `None`: nothing can stand in for it.
    fn read_on(value: Value, errors: &mut FieldErrors) -> Option<Self> {
        match Self::from_json(value) {
            Ok(value) => Some(value),
            Err(faults) => {
                errors.0.extend(faults.0);
                Self::stand_in()
            }
        }
    }

    /// What stands in for a value that is bad or missing.
    fn stand_in() -> Option<Self> {
        None
    }
}

/// [`FromJson::from_json`] of a type that reads on by itself.
pub fn read_whole<T: FromJson>(value: Value) -> Result<T, FieldErrors> {
    let mut errors = FieldErrors::default();
    match T::read_on(value, &mut errors) {
        Some(value) if errors.is_empty() => Ok(value),
        _ => Err(errors),
    }
}

/// What a PATCH says about a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Nothing: it stays.
    #[default]
    Keep,
    /// Null: it is cleared.
    Clear,
    /// A value: it is replaced.
    Set(T),
}

impl<T> Patch<T> {
    /// The new value of a field that cannot be empty; `None`: it stays.
    pub fn set(self) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }

    /// The new value of a field that can be empty; `None`: it stays.
    pub fn nullable(self) -> Option<Option<T>> {
        match self {
            Self::Keep => None,
            Self::Clear => Some(None),
            Self::Set(value) => Some(Some(value)),
        }
    }
}

/// A JSON object that is being read field by field.
pub struct Object {
    fields: Map<String, Value>,
    errors: FieldErrors,
}

impl Object {
    /// Starts reading `value`.
    ///
    /// # Errors
    /// [`FieldCode::IncorrectType`] when it is not an object.
    pub fn new(value: Value) -> Result<Self, FieldErrors> {
        match value {
            Value::Object(fields) => Ok(Self { fields, errors: FieldErrors::default() }),
            other => Err(incorrect_type("an object", &other)),
        }
    }

    /// A field that must be there and not null. `None`: it was not, and nothing stands in for it.
    pub fn required<T: FromJson>(&mut self, name: &str) -> Option<T> {
        match self.fields.remove(name) {
            None => self.note(name, FieldCode::Required, "This field is required."),
            Some(Value::Null) => self.note(name, FieldCode::Null, "This field may not be null."),
            Some(value) => self.read_on(name, value),
        }
    }

    /// A field that may be missing or null. One that is bad as a whole is as good as missing.
    pub fn optional<T: FromJson>(&mut self, name: &str) -> Option<Option<T>> {
        Some(match self.fields.remove(name) {
            None | Some(Value::Null) => None,
            Some(value) => {
                let before = self.errors.0.len();
                let read = self.read_on(name, value);
                let is_bad = self.errors.0[before..].iter().any(|error| error.attr == name);
                read.filter(|_| !is_bad)
            }
        })
    }

    /// A field where missing and null differ. One that is bad and that nothing stands in for is as good as missing.
    pub fn patch<T: FromJson>(&mut self, name: &str) -> Option<Patch<T>> {
        Some(match self.fields.remove(name) {
            None => Patch::Keep,
            Some(Value::Null) => Patch::Clear,
            Some(value) => self.read_on(name, value).map_or(Patch::Keep, Patch::Set),
        })
    }

    /// All that was noted.
    pub fn into_errors(self) -> FieldErrors {
        self.errors
    }

    fn read_on<T: FromJson>(&mut self, name: &str, value: Value) -> Option<T> {
        let mut faults = FieldErrors::default();
        let read = T::read_on(value, &mut faults);
        self.errors.0.extend(faults.under(name).0);
        read
    }

    fn note<T: FromJson>(&mut self, name: &str, code: FieldCode, detail: &str) -> Option<T> {
        self.errors.push(name, code, detail);
        T::stand_in()
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        read_whole(value)
    }

    fn read_on(value: Value, errors: &mut FieldErrors) -> Option<Self> {
        let Value::Array(values) = value else {
            errors.push("", FieldCode::NotAList, format!("Expected a list of items but got {}.", kind_of(&value)));
            return Self::stand_in();
        };
        let mut items = Self::with_capacity(values.len());
        let mut is_whole = true;
        for (i, value) in values.into_iter().enumerate() {
            let mut faults = FieldErrors::default();
            let item = match value {
                Value::Null => {
                    faults.push("", FieldCode::Null, "This field may not be null.");
                    T::stand_in()
                }
                value => T::read_on(value, &mut faults),
            };
            errors.0.extend(faults.under(&i.to_string()).0);
            is_whole &= item.is_some();
            items.extend(item);
        }
        // Without one of them the others would have the wrong places.
        if is_whole { Some(items) } else { Self::stand_in() }
    }

    fn stand_in() -> Option<Self> {
        Some(Self::new())
    }
}

/// One fault of the value itself.
pub(super) fn one(code: FieldCode, detail: impl Into<String>) -> FieldErrors {
    FieldErrors(vec![FieldError::new("", code, detail)])
}

/// The same faults one level further out.
pub fn under(errors: FieldErrors, outer: &str) -> FieldErrors {
    FieldErrors(errors.0.into_iter().map(|error| error.under(outer)).collect())
}

/// The value is not of the JSON type that the field holds.
pub(super) fn incorrect_type(expected: &str, value: &Value) -> FieldErrors {
    one(FieldCode::IncorrectType, format!("Expected {expected} but got {}.", kind_of(value)))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// At most 64 characters of what a client sent, fit for an error's detail.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().filter(|c| !c.is_control()).take(64).collect();
    format!("\"{short}\"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::{Number, body};

    body! {
        /// Part of a test body.
        InnerBody {
            /// A number.
            required amount: Number,
            /// A text.
            optional name: String,
        }
    }

    body! {
        /// A test body.
        OuterBody {
            /// A text.
            required title: String,
            /// Parts.
            optional parts: Vec<InnerBody>,
            /// May be cleared.
            patch note: String,
        }
    }

    #[test]
    fn every_fault_is_found_at_its_path() {
        let value = json!({"title": 3, "parts": [{"amount": "x"}, {"amount": 1, "name": []}, null, {}], "note": true});
        let FieldErrors(errors) = OuterBody::from_json(value).expect_err("faults");
        let found: Vec<_> = errors.iter().map(|error| (error.attr.as_str(), error.code.as_str())).collect();
        #[rustfmt::skip]
        let expected = [
            ("title",          "incorrect_type"),
            ("parts.0.amount", "invalid"),
            ("parts.1.name",   "incorrect_type"),
            ("parts.2",        "null"),
            ("parts.3.amount", "required"),
            ("note",           "incorrect_type"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn missing_null_and_given_differ_where_they_should() {
        let read = |value| OuterBody::from_json(value).expect("a body");
        assert_eq!(read(json!({"title": "t"})).note, Patch::Keep);
        assert_eq!(read(json!({"title": "t", "note": null})).note, Patch::Clear);
        assert_eq!(read(json!({"title": "t", "note": "n"})).note, Patch::Set("n".to_owned()));
        let body = read(json!({"title": "t", "parts": null, "unknown": 1}));
        assert_eq!((body.title.as_str(), body.parts.is_none()), ("t", true));
        let body = read(json!({"title": "t", "parts": [{"amount": "1.5"}]}));
        let InnerBody { amount, name } = body.parts.expect("parts").remove(0);
        assert_eq!((amount, name), (Number("1.5".parse().expect("decimal")), None));
        let FieldErrors(errors) = OuterBody::from_json(json!({"title": null})).expect_err("a fault");
        assert_eq!(errors[0].code, FieldCode::Null);
        let FieldErrors(errors) = OuterBody::from_json(json!([])).expect_err("a fault");
        assert_eq!((errors[0].attr.as_str(), errors[0].code), ("", FieldCode::IncorrectType));
    }
}
