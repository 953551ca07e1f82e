//! How the types of the wire describe themselves for the OpenAPI document.

use std::collections::BTreeMap;

use billing_domain::event::Properties;
use serde_json::Value;
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr};

/// The format of exact decimals, as in the registry of OpenAPI's formats.
pub const DECIMAL: &str = "decimal";

/// The description of a type, or a reference to it.
pub type Schema = RefOr<utoipa::openapi::Schema>;

/// How a type is described.
pub type Describe = fn(&mut Schemas) -> Schema;

/// A type that the OpenAPI document can describe.
pub trait Described {
    /// Whether a field of this type is in every answer.
    const IS_ALWAYS_SHOWN: bool = true;

    /// Its description; what is worth a name is put into `schemas` and referred to.
    fn describe(schemas: &mut Schemas) -> Schema;
}

/// Which way what is described goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// In: what a caller may send.
    #[default]
    In,
    /// Out: what the service answers, with its decimals written so.
    Out(DecimalForm),
}

billing_domain::choices! {
    /// How answers write decimals.
    pub DecimalForm {
        /// As JSON numbers with all their digits.
        Number = "number",
        /// As JSON text, for readers that make floats of numbers.
        Text = "text",
    }
}

/// The named descriptions gathered so far.
#[derive(Default)]
pub struct Schemas {
    named: BTreeMap<String, Option<Schema>>,
    direction: Direction,
}

impl Schemas {
    /// Describes what goes that way from now on.
    pub fn set_direction(&mut self, direction: Direction) {
        self.direction = direction;
    }

    /// Which way what is described goes.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Describes the struct `name` once and refers to it.
    pub fn object<T>(&mut self, name: &str, doc: &str, fields: impl FnOnce(&mut ObjectFields<'_>)) -> Schema {
        if !self.named.contains_key(name) {
            self.named.insert(name.to_owned(), None); // Taken: the type may contain itself.
            let builder = ObjectBuilder::new().schema_type(Type::Object).description(Some(doc.trim()));
            let mut object = ObjectFields { schemas: self, builder: Some(builder) };
            fields(&mut object);
            let built = object.builder.take().unwrap_or_default().build();
            self.named.insert(name.to_owned(), Some(built.into()));
        }
        Ref::from_schema_name(name).into()
    }

    /// All named descriptions.
    pub fn into_named(self) -> impl Iterator<Item = (String, Schema)> {
        self.named.into_iter().filter_map(|(name, schema)| Some((name, schema?)))
    }
}

/// The fields of a struct that is being described.
pub struct ObjectFields<'s> {
    schemas: &'s mut Schemas,
    builder: Option<ObjectBuilder>,
}

impl ObjectFields<'_> {
    /// One more field.
    pub fn field<T: Described>(&mut self, name: &str, doc: &str, required: bool) {
        let schema = with_description(T::describe(self.schemas), doc.trim());
        self.builder = self.builder.take().map(|builder| {
            let builder = builder.property(name, schema);
            if required { builder.required(name) } else { builder }
        });
    }
}

fn with_description(schema: Schema, doc: &str) -> Schema {
    match schema {
        RefOr::Ref(mut reference) => {
            doc.clone_into(&mut reference.description);
            reference.into()
        }
        RefOr::T(utoipa::openapi::Schema::Object(mut object)) => {
            object.description = Some(match object.description.take() {
                Some(described) if !described.is_empty() => format!("{doc} {described}"),
                _ => doc.to_owned(),
            });
            utoipa::openapi::Schema::Object(object).into()
        }
        RefOr::T(utoipa::openapi::Schema::Array(mut array)) => {
            array.description = Some(doc.to_owned());
            utoipa::openapi::Schema::Array(array).into()
        }
        RefOr::T(utoipa::openapi::Schema::OneOf(mut one_of)) => {
            one_of.description = Some(doc.to_owned());
            utoipa::openapi::Schema::OneOf(one_of).into()
        }
        other => other,
    }
}

/// A plain value of a JSON type, with a word about its form.
pub(super) fn plain(kind: Type, form: &str) -> Schema {
    let builder = ObjectBuilder::new().schema_type(kind);
    if form.is_empty() { builder.build().into() } else { builder.description(Some(form)).build().into() }
}

/// A text of a format that JSON Schema knows.
pub(super) fn formatted(format: KnownFormat, form: &str) -> Schema {
    let builder = ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(format)));
    builder.description(Some(form)).build().into()
}

/// An exact decimal: number or text from callers; out in the one form that was asked for.
pub(super) fn decimal(direction: Direction) -> Schema {
    let kind = match direction {
        Direction::In => SchemaType::Array(vec![Type::Number, Type::String]),
        Direction::Out(DecimalForm::Number) => Type::Number.into(),
        Direction::Out(DecimalForm::Text) => Type::String.into(),
    };
    let format = SchemaFormat::Custom(DECIMAL.to_owned());
    let builder = ObjectBuilder::new().schema_type(kind).format(Some(format));
    builder.description(Some("Exact decimal.")).build().into()
}

/// One of several words.
pub(super) fn words<'w>(words: impl Iterator<Item = &'w str>) -> Schema {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.map(Value::from))).build().into()
}

macro_rules! described {
    ($($type:ty => $kind:ident, $form:literal;)*) => {
        $(impl Described for $type {
            fn describe(_: &mut Schemas) -> Schema { plain(Type::$kind, $form) }
        })*
    };
}

described! {
    String => String, "";
    &'static str => String, "";
    bool => Boolean, "";
    u8 => Integer, "";
    u16 => Integer, "";
    u32 => Integer, "";
    u64 => Integer, "";
    serde_json::Map<String, Value> => Object, "Free-form JSON.";
    Properties => Object, "Free-form JSON.";
    BTreeMap<String, String> => Object, "";
}

impl Described for Value {
    fn describe(_: &mut Schemas) -> Schema {
        ObjectBuilder::new().schema_type(SchemaType::any()).build().into()
    }
}

impl<T: Described> Described for Option<T> {
    fn describe(schemas: &mut Schemas) -> Schema {
        let null = ObjectBuilder::new().schema_type(Type::Null);
        utoipa::openapi::Schema::OneOf(OneOfBuilder::new().item(T::describe(schemas)).item(null).build()).into()
    }
}

impl<T: Described> Described for Vec<T> {
    fn describe(schemas: &mut Schemas) -> Schema {
        ArrayBuilder::new().items(T::describe(schemas)).build().into()
    }
}

/// A field that is always null.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Null;

impl Described for Null {
    fn describe(_: &mut Schemas) -> Schema {
        plain(Type::Null, "")
    }
}

/// A secret that is in the answer to the call that made it, and not in a repetition of that answer.
#[derive(Clone, serde::Serialize)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl Described for Secret {
    const IS_ALWAYS_SHOWN: bool = false;

    fn describe(_: &mut Schemas) -> Schema {
        plain(Type::String, "")
    }
}

/// An empty JSON object.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Empty {}

impl Described for Empty {
    fn describe(_: &mut Schemas) -> Schema {
        plain(Type::Object, "")
    }
}
