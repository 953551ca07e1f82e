//! With which pepper the API keys of a database are digested.

use diesel::prelude::*;

use crate::pg::schema::key_pepper::dsl::{fingerprint, key_pepper};

/// The fingerprint that was noted, if one was.
pub(crate) fn find(pg: &mut PgConnection) -> QueryResult<Option<Vec<u8>>> {
    key_pepper.select(fingerprint).first(pg).optional()
}

/// Notes a fingerprint unless there is one, and answers the one that holds.
pub(crate) fn note(pg: &mut PgConnection, of_pepper: &[u8]) -> QueryResult<Vec<u8>> {
    diesel::insert_into(key_pepper).values(fingerprint.eq(of_pepper)).on_conflict_do_nothing().execute(pg)?;
    key_pepper.select(fingerprint).first(pg)
}
