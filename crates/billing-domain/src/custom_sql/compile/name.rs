//! Names as Postgres reads them.

use sqlparser::ast::{Ident, ObjectName};

/// A name as Postgres reads it: in lower case unless quoted.
pub(super) fn name_of(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// A name of one part.
pub(super) fn single_name(name: &ObjectName) -> Option<String> {
    match &name.0[..] {
        [part] => part.as_ident().map(name_of),
        _ => None,
    }
}
