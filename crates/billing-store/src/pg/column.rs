//! Between domain values and column values: choices, counts, periods, JSON.

use std::io::Write;

use billing_domain::period::{Interval, IntervalUnit, Period};
use billing_domain::{Error, StoreError};
use diesel::expression::Expression;
use diesel::pg::Pg;
use diesel::serialize::{IsNull, Output, ToSql};
use diesel::sql_types::Json;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use time::OffsetDateTime;
use time::macros::datetime;

/// Before everything, and behind it: what Postgres can hold and this program can read.
pub(crate) const EARLIEST: OffsetDateTime = datetime!(0001-01-01 00:00 UTC);
pub(crate) const LATEST: OffsetDateTime = datetime!(9999-12-31 23:59:59 UTC);

diesel::postfix_operator!(IsTrue, " IS TRUE");

/// A condition that holds for rows which another condition has found: no index is used for it. Of a table of which Postgres knows
/// nothing yet, an organization's rows look as few as a customer's, and it reads them all.
pub(crate) fn checked<E: Expression>(condition: E) -> IsTrue<E> {
    IsTrue::new(condition)
}

/// A row that the domain cannot read: the database holds what this program never wrote.
pub(crate) fn unreadable(what: impl std::fmt::Display) -> Error {
    StoreError::Internal(format!("unreadable row: {what}")).into()
}

/// The choice that is written as `text`.
pub(crate) fn choice<T: Copy>(all: &[T], as_str: impl Fn(T) -> &'static str, text: &str) -> Result<T, Error> {
    all.iter().copied().find(|choice| as_str(*choice) == text).ok_or_else(|| unreadable(format!("choice {text:?}")))
}

/// A whole number in the range of its domain type.
pub(crate) fn count<T: TryFrom<i64>>(value: impl Into<i64>) -> Result<T, Error> {
    let value = value.into();
    T::try_from(value).map_err(|_| unreadable(format!("count {value}")))
}

/// A whole number in the range of its column.
pub(crate) fn stored_count<T>(value: impl TryInto<T> + Copy + std::fmt::Display) -> Result<T, Error> {
    value.try_into().map_err(|_| StoreError::Internal(format!("{value} does not fit its column")).into())
}

/// `[start, end)`.
pub(crate) fn period(start: OffsetDateTime, end: OffsetDateTime) -> Result<Period, Error> {
    Period::new(start, end).map_err(unreadable)
}

/// An optional interval out of its two columns.
pub(crate) fn interval(unit: Option<String>, count_column: Option<i64>) -> Result<Option<Interval>, Error> {
    let (Some(unit), Some(number)) = (unit, count_column) else { return Ok(None) };
    let unit: IntervalUnit = unit.parse().map_err(unreadable)?;
    Interval::new(unit, count(number)?).map(Some).map_err(unreadable)
}

/// The two columns of an optional interval.
pub(crate) fn interval_columns(interval: Option<Interval>) -> (Option<String>, Option<i64>) {
    match interval {
        Some(interval) => (Some(interval.unit.as_str().to_owned()), Some(i64::from(interval.count))),
        None => (None, None),
    }
}

/// A value out of JSON. Through its text: out of a `Value`, serde hands whole numbers beyond 64 bits over in a form that a
/// tagged value does not take.
pub(crate) fn from_json<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_str(&value.to_string()).map_err(unreadable)
}

/// A value as JSON.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(|error| StoreError::Internal(error.to_string()).into())
}

/// JSON that is at hand as text.
#[derive(Clone, Debug)]
pub(crate) struct JsonText<T>(pub(crate) T);

impl<T: AsRef<str> + std::fmt::Debug> ToSql<Json, Pg> for JsonText<T> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> diesel::serialize::Result {
        out.write_all(self.0.as_ref().as_bytes())?;
        Ok(IsNull::No)
    }
}
