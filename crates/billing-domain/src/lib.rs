#![forbid(unsafe_code)]
//! A pure billing engine: plans, tiers, metered usage, subscriptions, invoices and the access rule.
//!
//! Nothing here performs I/O, reads a clock, or touches a float: the caller brings the instant and the
//! store, and the same code runs behind a web service, inside another program and in a unit test.

pub mod access;
pub mod adjustment;
pub mod api_key;
pub mod charge;
pub mod country;
pub mod credit;
pub mod currency;
pub mod customer;
pub mod decimal;
pub mod error;
pub mod event;
pub mod id;
pub mod invoice;
pub mod memory;
pub mod metric;
pub mod money;
pub mod organization;
pub mod period;
pub mod plan;
pub mod simulate;
pub mod store;
pub mod subscription;
pub mod tax;
pub mod test_clock;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
pub mod tier;
pub mod timezone;
pub mod usage;
pub mod workflow;

pub use bigdecimal::BigDecimal;
pub use error::{Error, FieldCode, FieldError, FieldErrors, Noun, Refusal, StoreError};
