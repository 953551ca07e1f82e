//! What a call knows, by its own description, and what of a request it does not.

use std::collections::BTreeMap;

use actix_web::http::Method;
use billing_domain::nearest::nearest;
use billing_domain::{FieldCode, FieldError, FieldErrors};
use serde_json::{Map, Value};

use super::interface::UnknownFields;
use crate::query::{Parameter, Query, is_spelling_of};
use crate::wire::{Describe, Schemas};

/// Most fields and parameters of one request that are told to be unknown.
pub(super) const FOUND_MAX: usize = 50;
/// Most characters of a name that a client made up.
const NAME_CHARACTERS_MAX: usize = 64;
/// Up to so many known names are all told when none is near.
const ALL_TOLD_MAX: usize = 8;
/// What existing clients add to every body: it means nothing, and nobody needs to be told.
pub const ADDED_BY_CLIENTS: [&str; 4] = ["$type", "library", "library_version", "sentAt"];

/// What a call knows.
pub struct Known {
    /// What becomes of the rest, unless the request says otherwise.
    pub(super) unknown_fields: UnknownFields,
    /// Whether its handler reads the body, and with it what is unknown.
    pub(super) has_body: bool,
    /// Whether it changes nothing.
    pub(super) is_reading: bool,
    parameters: Vec<&'static Parameter>,
    /// The JSON schema of its body.
    body: Value,
    named: BTreeMap<String, Value>,
}

/// A field or parameter that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Where it stands.
    pub path: String,
    detail: String,
}

impl Unknown {
    /// A field `name` at `path`, where those `known` are looked for.
    pub fn new<'n>(path: String, name: &str, known: impl Iterator<Item = &'n str>) -> Self {
        let known: Vec<&str> = known.collect();
        let detail = match nearest(name, known.iter().copied()) {
            Some(near) => format!("Nothing has this name here. Did you mean `{near}`?"),
            None if known.is_empty() => "Nothing has this name here, nor any other.".to_owned(),
            None if known.len() <= ALL_TOLD_MAX => {
                format!("Nothing has this name here. Known are `{}`.", known.join("`, `"))
            }
            None => "Nothing has this name here.".to_owned(),
        };
        Self { path, detail }
    }
}

/// Each as a fault of its field.
pub(super) fn faults(unknown: &[Unknown]) -> FieldErrors {
    let fault =
        |unknown: &Unknown| FieldError::new(unknown.path.clone(), FieldCode::UnknownField, unknown.detail.clone());
    FieldErrors(unknown.iter().map(fault).collect())
}

impl Known {
    /// What a call of `method` with these parameters, and a body that is described so, knows.
    pub fn new(
        unknown_fields: UnknownFields,
        method: &Method,
        parameters: Vec<&'static Parameter>,
        request: Option<Describe>,
    ) -> Self {
        let mut schemas = Schemas::default();
        let value = |schema| serde_json::to_value(schema).unwrap_or_default();
        // A body where none is described has no fields.
        let none = serde_json::json!({"properties": {}});
        let body = request.map_or(none, |describe| value(describe(&mut schemas)));
        Self {
            unknown_fields,
            has_body: request.is_some(),
            is_reading: *method == Method::GET,
            parameters,
            body,
            named: schemas.into_named().map(|(name, schema)| (name, value(schema))).collect(),
        }
    }

    /// The parameters of a query that are not known, each once. Of a query that cannot be read nothing is said.
    pub fn unknown_parameters(&self, query: &str) -> Vec<Unknown> {
        let mut found: Vec<Unknown> = Vec::new();
        // Most are spelled as they are described.
        let plain = |pair: &str| {
            let name = pair.split_once('=').map_or(pair, |(name, _)| name);
            self.parameters.iter().any(|parameter| parameter.name == name)
        };
        if query.is_empty() || query.split('&').all(plain) {
            return found;
        }
        let Ok(query) = Query::parse(query) else { return found };
        for name in query.names() {
            let path = cleaned(name);
            let is_known = self.parameters.iter().any(|parameter| is_spelling_of(name, parameter));
            if !is_known && found.iter().all(|unknown| unknown.path != path) {
                found.push(Unknown::new(path, name, self.parameters.iter().map(|parameter| parameter.name)));
            }
        }
        found
    }

    /// The fields of a body that are not known, however deep they stand.
    pub fn unknown_fields(&self, body: &Value) -> Vec<Unknown> {
        let mut found = Vec::new();
        self.search(&self.body, body, "", &mut found);
        found
    }

    fn search(&self, schema: &Value, value: &Value, path: &str, found: &mut Vec<Unknown>) {
        let schema = self.resolved(schema);
        match value {
            Value::Object(fields) => {
                // An object whose fields are not described is free-form.
                let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
                self.search_fields(known, fields, path, found);
            }
            Value::Array(items) => {
                let Some(schema) = schema.get("items") else { return };
                for (i, item) in items.iter().enumerate() {
                    self.search(schema, item, &below(path, &i.to_string()), found);
                }
            }
            _ => {}
        }
    }

    fn search_fields(
        &self,
        known: &Map<String, Value>,
        fields: &Map<String, Value>,
        path: &str,
        found: &mut Vec<Unknown>,
    ) {
        let is_ignored = |name: &str| {
            path.is_empty() && self.unknown_fields == UnknownFields::Ignored && ADDED_BY_CLIENTS.contains(&name)
        };
        for (name, value) in fields {
            match known.get(name) {
                Some(schema) => self.search(schema, value, &below(path, name), found),
                None if found.len() >= FOUND_MAX || is_ignored(name) => {}
                None => {
                    found.push(Unknown::new(below(path, &cleaned(name)), name, known.keys().map(String::as_str)));
                }
            }
        }
    }

    /// What a reference names; of a choice, what is not null.
    fn resolved<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let choices = schema.get("oneOf").and_then(Value::as_array);
        let schema = choices.and_then(|all| all.iter().find(|choice| choice["type"] != "null")).unwrap_or(schema);
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.rsplit('/').next());
        name.and_then(|name| self.named.get(name)).unwrap_or(schema)
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A name that a client made up, short and without what could not be shown.
pub fn cleaned(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(NAME_CHARACTERS_MAX).collect()
}
