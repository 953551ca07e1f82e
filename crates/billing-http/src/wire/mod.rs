//! The types of the wire: what a JSON value must look like to become a domain value, and back.
//!
//! `body!` declares what comes in and `view!` what goes out. A body is read whole: every bad field of it,
//! however deep, is found in one go. Both describe themselves for the OpenAPI document.

mod basic;
mod body;
mod date;
mod free_form;
mod number;
mod object;
mod schema;
mod word;

#[macro_use]
mod macros;

pub use basic::OneOrMany;
pub use body::{FromFields, FromJson, Object, Patch, under};
pub(crate) use date::read_instant;
pub use date::{Day, EndDate, Instant, StartDate, UntilDate};
pub use free_form::FreeForm;
pub use number::Number;
pub use object::{
    AddressBody, AddressView, CurrencyView, CustomerBriefView, FilterBody, FilterView, PlanVersionBriefView,
};
pub use schema::{
    DECIMAL, DecimalForm, Describe, Described, Direction, Empty, Null, ObjectFields, Schema, Schemas, Secret,
};
pub(crate) use word::words_of;
pub use word::{describe as describe_word, read as read_word};

pub(crate) use macros::{body, read_through, view};
