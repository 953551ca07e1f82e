//! The queue of the billing run, and the clocks on their way.

use billing_domain::Error;
use billing_domain::id::{CustomerKey, OrganizationId, TestClockId};
use billing_domain::store::{Backlog, BillingQueue, Leased, Parked};
use billing_domain::test_clock::TestClockStatus;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::PgStore;
use crate::pg::column::{count, unreadable};
use crate::pg::error::Failure;
use crate::pg::schema;
use crate::pg::sql_file::sql_file;
use crate::pg::statement::statement;

sql_file! {
    /// Leases due rows to the caller; rows that another worker looks at right now are skipped. As an array they are picked
    /// once: a plan that was made while the queue was empty would pick anew for each row of it, and lock what it picks. The
    /// time of the statement ends the walk along the index; that of the clock would only be a filter. Who is catching up is
    /// read once, too: mostly nobody.
    LeaseDue -> (SqlUuid, SqlUuid, BigInt) = "lease_due.sql" {
        lease_ms: i64 as BigInt,
        until: Option<OffsetDateTime> as Nullable<Timestamptz>,
        but: Vec<Uuid> as Array<SqlUuid>,
        limit: i64 as BigInt,
    }
}

sql_file! {
    /// Leases of each organization the customer who is furthest behind of those who are catching up. A row that another
    /// worker has leased meanwhile is looked at again when it is locked, and left to them.
    LeaseCatchingUp -> (SqlUuid, SqlUuid, BigInt) = "lease_catching_up.sql" {
        lease_ms: i64 as BigInt,
        until: Option<OffsetDateTime> as Nullable<Timestamptz>,
        but: Vec<Uuid> as Array<SqlUuid>,
        limit: i64 as BigInt,
    }
}

statement! {
    /// Who is catching up under a clock that stands and has not failed: one that advances takes them along.
    ListCatchingUp -> (SqlUuid, SqlUuid, SqlUuid) {
        "SELECT organization_id, clock_id, customer_key
        FROM (
            SELECT customer.organization_id, clock.id AS clock_id, customer.customer_key,
                row_number() OVER (PARTITION BY customer.organization_id ORDER BY customer.customer_key) AS place
            FROM customers customer
            JOIN test_clocks clock ON clock.organization_id = customer.organization_id AND clock.id = customer.test_clock_id
            WHERE customer.catching_up AND clock.status = 'ready'
        ) catching_up
        WHERE place <= " each: i64 as BigInt; "
        ORDER BY organization_id, place"
    }
}

statement! {
    /// Notes a failure, unless the customer was billed since it was leased. No time to wait: it is parked.
    PutOff -> BigInt {
        "UPDATE billing_due due
        SET failures = due.failures + 1, failure = " reason: String as Text; ", failed_at = clock_timestamp(),
            is_parked = wait.ms IS NULL,
            claimed_until = clock_timestamp() + make_interval(secs => coalesce(wait.ms, 0)::double precision / 1000)
        FROM (SELECT " wait_ms: Option<i64> as Nullable<BigInt>; "::bigint AS ms) wait
        WHERE due.organization_id = " organization: Uuid as SqlUuid; " AND due.customer_key = " customer: Uuid as SqlUuid; "
            AND due.failures = " failures: i64 as BigInt; " AND due.claimed_until IS NOT NULL"
    }
}

statement! {
    /// The parked customers, the longest overdue first.
    ListParked -> (SqlUuid, Text, Timestamptz, BigInt, Nullable<Text>) {
        "SELECT due.organization_id, customer.customer_id, due.due_at, due.failures, due.failure
        FROM billing_due due
        JOIN customers customer USING (customer_key)
        WHERE due.is_parked
        ORDER BY due.due_at, due.organization_id, customer.customer_id COLLATE \"C\"
        LIMIT " limit: i64 as BigInt; ""
    }
}

statement! {
    /// Lets parked customers be tried again.
    ReleaseParked -> BigInt {
        "UPDATE billing_due SET is_parked = false, failures = " failures: i64 as BigInt; ", claimed_until = NULL
        WHERE is_parked"
    }
}

statement! {
    /// How many customers are due, since when those who are not catching up, what time it is, how many of them failed or
    /// are parked, and how many are catching up.
    ReadBacklog -> (BigInt, Nullable<Timestamptz>, Timestamptz, BigInt, BigInt, BigInt) {
        "SELECT count(*), min(due_at) FILTER (WHERE late.customer_key IS NULL), clock_timestamp(),
            count(*) FILTER (WHERE failures > 0 AND NOT is_parked), count(*) FILTER (WHERE is_parked),
            count(late.customer_key)
        FROM billing_due
        LEFT JOIN (SELECT customer_key FROM customers WHERE catching_up) late USING (customer_key)
        WHERE due_at <= statement_timestamp()"
    }
}

/// A row of [`ListParked`].
#[derive(Queryable)]
struct ParkedRow {
    organization: Uuid,
    customer: String,
    due_at: OffsetDateTime,
    failures: i64,
    failure: Option<String>,
}

impl TryFrom<ParkedRow> for Parked {
    type Error = Error;

    fn try_from(row: ParkedRow) -> Result<Self, Error> {
        Ok(Self {
            organization: row.organization.into(),
            customer: row.customer.parse().map_err(|_| unreadable("customer_id"))?,
            due_at: row.due_at,
            failures: count(row.failures)?,
            reason: row.failure.unwrap_or_default(),
        })
    }
}

/// The row of [`ReadBacklog`].
#[derive(Queryable)]
struct BacklogRow {
    customers: i64,
    first_due_at: Option<OffsetDateTime>,
    now: OffsetDateTime,
    failing: i64,
    parked: i64,
    catching_up: i64,
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.whole_milliseconds()).unwrap_or(i64::MAX)
}

fn uuids(organizations: &[OrganizationId]) -> Vec<Uuid> {
    organizations.iter().map(|organization| organization.uuid()).collect()
}

/// Organization, customer, failures.
type LeasedRow = (Uuid, Uuid, i64);

fn leased((organization, customer, failures): LeasedRow) -> Leased {
    let failures = u32::try_from(failures).unwrap_or(u32::MAX);
    Leased { organization: organization.into(), customer: customer.into(), failures }
}

impl BillingQueue for PgStore {
    fn lease_due(
        &self,
        limit: u32,
        lease: Duration,
        until: Option<OffsetDateTime>,
        but: &[OrganizationId],
    ) -> Result<Vec<Leased>, Error> {
        let statement = LeaseDue { lease_ms: milliseconds(lease), until, but: uuids(but), limit: i64::from(limit) };
        let rows = self.shared.pool.run(|pg| statement.clone().load::<LeasedRow>(pg));
        Ok(rows.map_err(Failure::into_error)?.into_iter().map(leased).collect())
    }

    fn lease_catching_up(
        &self,
        limit: u32,
        lease: Duration,
        until: Option<OffsetDateTime>,
        but: &[OrganizationId],
    ) -> Result<Vec<Leased>, Error> {
        let statement =
            LeaseCatchingUp { lease_ms: milliseconds(lease), until, but: uuids(but), limit: i64::from(limit) };
        let rows = self.shared.pool.run(|pg| statement.clone().load::<LeasedRow>(pg));
        Ok(rows.map_err(Failure::into_error)?.into_iter().map(leased).collect())
    }

    fn put_off(&self, leased: &Leased, reason: &str, retry_after: Option<Duration>) -> Result<(), Error> {
        let statement = PutOff {
            reason: reason.to_owned(),
            wait_ms: retry_after.map(milliseconds),
            organization: leased.organization.uuid(),
            customer: leased.customer.uuid(),
            failures: i64::from(leased.failures),
        };
        self.shared.pool.run(|pg| statement.clone().execute(pg)).map(drop).map_err(Failure::into_error)
    }

    fn list_parked(&self, limit: u32) -> Result<Vec<Parked>, Error> {
        let statement = ListParked { limit: i64::from(limit) };
        let rows: Vec<ParkedRow> =
            self.shared.pool.run(|pg| statement.clone().load(pg)).map_err(Failure::into_error)?;
        rows.into_iter().map(Parked::try_from).collect()
    }

    fn release_parked(&self) -> Result<u64, Error> {
        let released = self.shared.pool.run(|pg| ReleaseParked { failures: 0 }.execute(pg));
        Ok(released.map_err(Failure::into_error)? as u64)
    }

    fn backlog(&self) -> Result<Backlog, Error> {
        let row: BacklogRow = self.shared.pool.run(|pg| ReadBacklog {}.get_result(pg)).map_err(Failure::into_error)?;
        Ok(Backlog {
            customers: count(row.customers)?,
            lag: row.first_due_at.map_or(Duration::ZERO, |first| row.now - first),
            failing: count(row.failing)?,
            parked: count(row.parked)?,
            catching_up: count(row.catching_up)?,
        })
    }

    fn list_advancing_clocks(&self) -> Result<Vec<(OrganizationId, TestClockId)>, Error> {
        use schema::test_clocks::dsl::{created_at, id, organization_id, status, test_clocks};
        let advancing = test_clocks.filter(status.eq(TestClockStatus::Advancing.as_str())).order((created_at, id));
        let rows = self.shared.pool.run(|pg| advancing.select((organization_id, id)).load::<(Uuid, Uuid)>(pg));
        let rows = rows.map_err(Failure::into_error)?;
        Ok(rows.into_iter().map(|(organization, clock)| (organization.into(), clock.into())).collect())
    }

    fn list_catching_up(&self, each: u32) -> Result<Vec<(OrganizationId, TestClockId, CustomerKey)>, Error> {
        let statement = ListCatchingUp { each: i64::from(each) };
        let rows = self.shared.pool.run(|pg| statement.clone().load::<(Uuid, Uuid, Uuid)>(pg));
        let rows = rows.map_err(Failure::into_error)?.into_iter();
        Ok(rows.map(|(organization, clock, customer)| (organization.into(), clock.into(), customer.into())).collect())
    }
}
