//! Places in lists that are ordered by time.

use billing_domain::{Error, FieldError};
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

/// A place in a list by time: microseconds since 1970, and the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cursor {
    at: OffsetDateTime,
    id: Uuid,
}

impl Cursor {
    pub(crate) fn new(at: OffsetDateTime, id: Uuid) -> Self {
        Self { at, id }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('_').and_then(|(micros, id)| {
            let nanos = micros.parse::<i64>().ok().map(|micros| i128::from(micros) * 1_000)?;
            let at = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
            Some(Self { at, id: Uuid::try_parse(id).ok()? })
        });
        parts.ok_or_else(|| FieldError::bad_cursor().into())
    }

    pub(crate) fn to_text(self) -> String {
        format!("{}_{}", self.at.unix_timestamp_nanos() / 1_000, self.id.simple())
    }

    pub(crate) fn parts(self) -> (OffsetDateTime, Uuid) {
        (self.at, self.id)
    }

    /// Whether a table's row stands behind this place of a list with the latest first, by its two columns: in one condition over both, so that
    /// an index over both is entered in its middle.
    pub(crate) fn behind<T: 'static>(self, columns: &str) -> Box<dyn BoxableExpression<T, Pg, SqlType = Bool>> {
        let place = sql::<Bool>(&format!("({columns}) < ("));
        let place = place.bind::<Timestamptz, _>(self.at).sql(", ").bind::<SqlUuid, _>(self.id).sql(")");
        Box::new(place)
    }
}
