//! Reading JSON values into the types of the wire, every fault at once.

use billing_domain::{FieldCode, FieldError, FieldErrors};
use serde_json::{Map, Value};

use super::schema::ObjectFields;

/// A type that a JSON value can be read as.
pub trait FromJson: Sized {
    /// Reads the value, which is not null.
    ///
    /// # Errors
    /// Everything that is wrong with its form; paths are relative to the value.
    fn from_json(value: Value) -> Result<Self, FieldErrors>;
}

/// What several fields of an object say together.
pub trait FromFields: Sized {
    /// Reads them. `None`: they are bad, and that is noted.
    fn from_fields(object: &mut Object) -> Option<Self>;

    /// Describes each of them.
    fn describe_fields(object: &mut ObjectFields<'_>);
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

    /// A field that must be there and not null. `None`: it is bad, and that is noted; so it is with all kinds of fields.
    pub fn required<T: FromJson>(&mut self, name: &str) -> Option<T> {
        match self.fields.remove(name) {
            None => self.note(name, FieldCode::Required, "This field is required."),
            Some(Value::Null) => self.note(name, FieldCode::Null, "This field may not be null."),
            Some(value) => self.read(name, value),
        }
    }

    /// A field that may be missing or null.
    pub fn optional<T: FromJson>(&mut self, name: &str) -> Option<Option<T>> {
        match self.fields.remove(name) {
            None | Some(Value::Null) => Some(None),
            Some(value) => self.read(name, value).map(Some),
        }
    }

    /// A field that may be missing, but not null.
    pub fn change<T: FromJson>(&mut self, name: &str) -> Option<Option<T>> {
        match self.fields.remove(name) {
            None => Some(None),
            Some(Value::Null) => self.note(name, FieldCode::Null, "This field may not be null."),
            Some(value) => self.read(name, value).map(Some),
        }
    }

    /// A field where missing and null differ.
    pub fn patch<T: FromJson>(&mut self, name: &str) -> Option<Patch<T>> {
        match self.fields.remove(name) {
            None => Some(Patch::Keep),
            Some(Value::Null) => Some(Patch::Clear),
            Some(value) => self.read(name, value).map(Patch::Set),
        }
    }

    /// Several fields that say one thing together; `name` is what that is called, and no field.
    pub fn together<T: FromFields>(&mut self, _name: &str) -> Option<T> {
        T::from_fields(self)
    }

    /// Notes a fault of a field.
    pub fn note<T>(&mut self, name: &str, code: FieldCode, detail: &str) -> Option<T> {
        self.errors.push(name, code, detail);
        None
    }

    /// What was read, if nothing was noted.
    ///
    /// # Errors
    /// All that was noted.
    pub fn finish<T>(self, read: impl FnOnce() -> Option<T>) -> Result<T, FieldErrors> {
        if self.errors.is_empty() { read().ok_or(self.errors) } else { Err(self.errors) }
    }

    fn read<T: FromJson>(&mut self, name: &str, value: Value) -> Option<T> {
        self.errors.keep_all(name, T::from_json(value))
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        let Value::Array(values) = value else {
            return Err(one(FieldCode::NotAList, format!("Expected a list of items but got {}.", kind_of(&value))));
        };
        let (mut items, mut errors) = (Self::with_capacity(values.len()), FieldErrors::default());
        for (i, value) in values.into_iter().enumerate() {
            let item = match value {
                Value::Null => Err(one(FieldCode::Null, "This field may not be null.")),
                value => T::from_json(value),
            };
            items.extend(errors.keep_all(&i.to_string(), item));
        }
        errors.finish(items)
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
