//! Leases of audits of the books, and what they found.

use billing_domain::Error;
use billing_domain::books_audit::{BooksAudit, BooksAuditState, BooksBreach};
use billing_domain::id::OrganizationId;
use billing_domain::store::BooksAuditQueue;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Jsonb, Nullable, Text, Uuid as SqlUuid};
use serde_json::Value;
use time::Duration;
use uuid::Uuid;

use super::PgStore;
use super::jobs::milliseconds;
use crate::pg::column::{stored_count, to_json};
use crate::pg::error::Failure;
use crate::pg::schema::books_audits;
use crate::pg::statement::statement;
use crate::repo::books_audit::BooksAuditRow;

statement! {
    /// Leases the running audit that was asked for first, where nobody is at it. Of two who come at once the second sees the lease of the
    /// first once it has the row, and nobody passes the first one by: so there is one at work at most.
    LeaseBooksAudit -> (SqlUuid, SqlUuid) {
        "UPDATE books_audits
        SET leased_until = clock_timestamp() + make_interval(secs => " lease_ms: i64 as BigInt; "::double precision / 1000),
            attempts = attempts + 1
        WHERE (organization_id, id) = (
            SELECT organization_id, id FROM books_audits WHERE state = 'running' ORDER BY requested_at, id LIMIT 1
        ) AND state = 'running' AND coalesce(leased_until <= clock_timestamp(), true)
        RETURNING organization_id, id"
    }
}

statement! {
    /// Notes how far an audit is that still runs and that nobody has begun anew, and leases it for as long again; one that came to its end is left.
    KeepBooksAudit -> SqlUuid {
        "UPDATE books_audits
        SET state = " state: String as Text; ", finished_at = CASE WHEN " has_ended: bool as Bool; " THEN statement_timestamp() END,
            checks_done = " checks_done: i64 as BigInt; ", breaches_found = " breaches_found: i64 as BigInt; ",
            breaches = " breaches: Value as Jsonb; ", failure = " failure: Option<String> as Nullable<Text>; ",
            leased_until = clock_timestamp() + make_interval(secs => " lease_ms: i64 as BigInt; "::double precision / 1000)
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND id = " id: Uuid as SqlUuid; " AND state = 'running' AND attempts = " attempts: i64 as BigInt; "
        RETURNING id"
    }
}

impl BooksAuditQueue for PgStore {
    fn lease_books_audit(&self, lease: Duration) -> Result<Option<(OrganizationId, BooksAudit)>, Error> {
        let statement = LeaseBooksAudit { lease_ms: milliseconds(lease) };
        let pool = &self.shared.worker_pool;
        let leased = pool.run(|pg| statement.clone().get_result(pg).optional());
        let leased: Option<(Uuid, Uuid)> = leased.map_err(Failure::into_error)?;
        let Some((organization, id)) = leased else { return Ok(None) };
        let query = books_audits::table.find((organization, id)).select(BooksAuditRow::as_select());
        let row: BooksAuditRow = pool.run(|pg| query.first(pg)).map_err(Failure::into_error)?;
        Ok(Some((organization.into(), row.try_into()?)))
    }

    fn keep_books_audit(
        &self,
        organization: OrganizationId,
        audit: &BooksAudit,
        breaches: &[BooksBreach],
        lease: Duration,
    ) -> Result<bool, Error> {
        let has_ended = audit.state != BooksAuditState::Running;
        let statement = KeepBooksAudit {
            state: audit.state.as_str().to_owned(),
            has_ended,
            checks_done: stored_count(audit.checks_done)?,
            breaches_found: stored_count(audit.breaches_found)?,
            breaches: to_json(&breaches)?,
            failure: audit.failure.clone(),
            lease_ms: if has_ended { 0 } else { milliseconds(lease) },
            organization: organization.uuid(),
            id: audit.id.uuid(),
            attempts: stored_count(audit.attempts)?,
        };
        let kept = self.shared.worker_pool.run(|pg| statement.clone().load(pg));
        let kept: Vec<Uuid> = kept.map_err(Failure::into_error)?;
        Ok(!kept.is_empty())
    }
}
