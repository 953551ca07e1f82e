//! With which pepper the API keys of a database are digested.

use billing_domain::StoreError;
use diesel::prelude::*;

use crate::pg::error::Failure;
use crate::pg::schema::key_pepper::dsl::{fingerprint, key_pepper};
use crate::store::PgStore;

impl PgStore {
    /// The fingerprint of the pepper that keys of this database are digested with; `None` before the first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn find_pepper(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.shared.pool.run(|pg| key_pepper.select(fingerprint).first(pg).optional());
        found.map_err(Failure::into_store_error)
    }

    /// Notes the fingerprint of the pepper, unless there is one, and answers the one that holds: of several processes that
    /// start at once the first decides.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn note_pepper(&self, of_pepper: &[u8]) -> Result<Vec<u8>, StoreError> {
        let noted = self.shared.pool.run(|pg| {
            diesel::insert_into(key_pepper).values(fingerprint.eq(of_pepper)).on_conflict_do_nothing().execute(pg)?;
            key_pepper.select(fingerprint).first(pg)
        });
        noted.map_err(Failure::into_store_error)
    }
}
