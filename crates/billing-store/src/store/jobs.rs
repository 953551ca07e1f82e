//! Leases of jobs, and how far they are.

use billing_domain::Error;
use billing_domain::id::{CustomerKey, JobId, OrganizationId};
use billing_domain::job::{Job, JobState};
use billing_domain::store::JobQueue;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable, Text, Uuid as SqlUuid};
use time::Duration;
use uuid::Uuid;

use super::PgStore;
use crate::pg::column::{count, stored_count};
use crate::pg::error::Failure;
use crate::pg::schema::{event_arrivals, jobs};
use crate::pg::statement::statement;
use crate::repo::job::JobRow;

statement! {
    /// Leases the running job that was looked at least lately and that nobody is at; one that another process looks at right now is skipped.
    LeaseJob -> (SqlUuid, SqlUuid) {
        "UPDATE jobs SET leased_until = clock_timestamp() + make_interval(secs => " lease_ms: i64 as BigInt; "::double precision / 1000)
        WHERE (organization_id, id) = (
            SELECT organization_id, id FROM jobs
            WHERE state = 'running' AND coalesce(leased_until <= clock_timestamp(), true)
            ORDER BY leased_until NULLS FIRST, id LIMIT 1
            FOR UPDATE SKIP LOCKED
        )
        RETURNING organization_id, id"
    }
}

statement! {
    /// Notes how far a job is that still runs, and leases it for as long again; one that came to its end is left.
    KeepJob -> SqlUuid {
        "UPDATE jobs
        SET state = " state: String as Text; ", finished_at = CASE WHEN " has_ended: bool as Bool; " THEN statement_timestamp() END,
            customers_done = " customers_done: i64 as BigInt; ", customers_after = " customers_after: Option<String> as Nullable<Text>; ",
            events_after = " events_after: Option<String> as Nullable<Text>; ", failure = " failure: Option<String> as Nullable<Text>; ",
            leased_until = clock_timestamp() + make_interval(secs => " lease_ms: i64 as BigInt; "::double precision / 1000)
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND id = " id: Uuid as SqlUuid; " AND state = 'running'
        RETURNING id"
    }
}

/// In whole milliseconds, as far as leases go.
pub(super) fn milliseconds(lease: Duration) -> i64 {
    i64::try_from(lease.whole_milliseconds()).unwrap_or(i64::MAX)
}

impl JobQueue for PgStore {
    fn lease_job(&self, lease: Duration) -> Result<Option<(OrganizationId, Job)>, Error> {
        let statement = LeaseJob { lease_ms: milliseconds(lease) };
        let leased: Option<(Uuid, Uuid)> = self
            .shared
            .worker_pool
            .run(|pg| statement.clone().get_result(pg).optional())
            .map_err(Failure::into_error)?;
        let Some((organization, id)) = leased else { return Ok(None) };
        let query = jobs::table.find((organization, id)).select(JobRow::as_select());
        let row: JobRow = self.shared.worker_pool.run(|pg| query.first(pg)).map_err(Failure::into_error)?;
        Ok(Some((organization.into(), row.try_into()?)))
    }

    fn keep_job(&self, organization: OrganizationId, job: &Job, lease: Duration) -> Result<bool, Error> {
        let lease = if job.state == JobState::Running { lease } else { Duration::ZERO };
        let statement = KeepJob {
            state: job.state.as_str().to_owned(),
            has_ended: job.state != JobState::Running,
            customers_done: stored_count(job.customers_done)?,
            customers_after: job.cursor.clone(),
            events_after: job.events_after.clone(),
            failure: job.failure.clone(),
            lease_ms: milliseconds(lease),
            organization: organization.uuid(),
            id: job.id.uuid(),
        };
        let kept: Vec<Uuid> =
            self.shared.worker_pool.run(|pg| statement.clone().load(pg)).map_err(Failure::into_error)?;
        Ok(!kept.is_empty())
    }

    fn leave_job(&self, organization: OrganizationId, job: JobId) -> Result<(), Error> {
        let target = jobs::table.find((organization.uuid(), job.uuid()));
        let left = jobs::leased_until.eq(diesel::dsl::now);
        self.shared.worker_pool.run(|pg| diesel::update(target).set(left).execute(pg)).map_err(Failure::into_error)?;
        Ok(())
    }
}

impl PgStore {
    /// The number of the last event or correction that came in of the customers whose events are stored one after the other with this
    /// one's: it goes up with each.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn last_arrival(&self, organization: OrganizationId, customer: CustomerKey) -> Result<u64, Error> {
        let key_range = self.shared.key_ranges.of(customer);
        let query = event_arrivals::table.find((organization.uuid(), key_range)).select(event_arrivals::last_arrival);
        let lanes = &self.shared.lanes;
        let read = lanes.with(lanes.of(customer), |lane| lane.worker_pool.run(|pg| query.first(pg).optional()));
        let last: Option<i64> = read.map_err(Failure::into_error)?;
        count(last.unwrap_or_default())
    }
}
