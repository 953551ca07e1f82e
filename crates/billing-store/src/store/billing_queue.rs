//! The queue of the billing run, and the clocks on their way.

use std::collections::BTreeMap;

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
        tax_waits: Vec<Uuid> as Array<SqlUuid>,
        limit: i64 as BigInt,
    }
}

sql_file! {
    /// Leases some of these customers. A row that another worker has leased meanwhile is looked at again when it is locked, and
    /// left to them.
    LeaseCatchingUp -> (SqlUuid, SqlUuid, BigInt) = "lease_catching_up.sql" {
        lease_ms: i64 as BigInt,
        customers: Vec<Uuid> as Array<SqlUuid>,
        limit: i64 as BigInt,
    }
}

statement! {
    /// Of each organization the customer who is furthest behind of those who are catching up and free.
    FindFurthestBehind -> (SqlUuid, Timestamptz, SqlUuid) {
        "SELECT DISTINCT ON (customer.organization_id) customer.organization_id, due.due_at, customer.customer_key
        FROM customers customer
        JOIN billing_due due USING (customer_key)
        WHERE customer.catching_up
            AND due.due_at <= least(statement_timestamp(), " until: Option<OffsetDateTime> as Nullable<Timestamptz>; "::timestamptz)
            AND (due.claimed_until IS NULL OR due.claimed_until <= statement_timestamp())
            AND NOT due.is_parked
            AND (due.waits_for_tax_until IS NULL OR due.waits_for_tax_until <= statement_timestamp()
                OR customer.organization_id <> ALL (" tax_waits: Vec<Uuid> as Array<SqlUuid>; "))
        ORDER BY customer.organization_id, due.due_at"
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
    /// Notes a failure, unless the customer was billed since it was leased.
    PutOff -> BigInt {
        "UPDATE billing_due
        SET failures = failures + 1, failure = " reason: String as Text; ", failed_at = statement_timestamp(),
            claimed_until = statement_timestamp() + make_interval(secs => " wait_ms: i64 as BigInt; "::double precision / 1000)
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND customer_key = " customer: Uuid as SqlUuid; "
            AND failures = " failures: i64 as BigInt; " AND claimed_until IS NOT NULL"
    }
}

statement! {
    /// Gives leased rows back whose customers wait for tax rates.
    WaitForTax -> BigInt {
        "UPDATE billing_due
        SET claimed_until = NULL,
            waits_for_tax_until = statement_timestamp() + make_interval(secs => " wait_ms: i64 as BigInt; "::double precision / 1000)
        FROM unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ", " failures: Vec<i64> as Array<BigInt>; ") AS leased (customer_key, failures)
        WHERE billing_due.customer_key = leased.customer_key AND billing_due.failures = leased.failures
            AND claimed_until IS NOT NULL"
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

impl PgStore {
    /// What each lane answers, by number.
    fn of_each_lane<T>(&self, ask: impl Fn(&mut PgConnection) -> QueryResult<T>) -> Result<Vec<T>, Error> {
        let ask = |lane| self.shared.lanes.with(lane, |lane| lane.pool.run(&ask)).map_err(Failure::into_error);
        self.shared.lanes.all().map(ask).collect()
    }

    /// At most so many of all lanes, whose turns to be the first go round.
    fn lease_by_turns(
        &self,
        limit: u32,
        lease: impl Fn(&mut PgConnection, i64) -> QueryResult<Vec<LeasedRow>>,
    ) -> Result<Vec<Leased>, Error> {
        let mut rows = Vec::new();
        for lane in self.shared.lanes.by_turns() {
            let left = i64::from(limit) - rows.len() as i64;
            if left <= 0 {
                break;
            }
            match self.shared.lanes.with(lane, |lane| lane.pool.run(|pg| lease(pg, left))) {
                Ok(leased) => rows.extend(leased),
                Err(failure) if rows.is_empty() => return Err(failure.into_error()),
                // What is leased is billed now. Whoever asks next begins with another lane.
                Err(failure) => {
                    log::warn!("nobody of a lane can be billed: {}", failure.into_error());
                    break;
                }
            }
        }
        Ok(rows.into_iter().map(leased).collect())
    }
}

impl BillingQueue for PgStore {
    fn lease_due(
        &self,
        limit: u32,
        lease: Duration,
        until: Option<OffsetDateTime>,
        tax_waits: &[OrganizationId],
    ) -> Result<Vec<Leased>, Error> {
        let (lease_ms, tax_waits) = (milliseconds(lease), uuids(tax_waits));
        self.lease_by_turns(limit, |pg, limit| {
            LeaseDue { lease_ms, until, tax_waits: tax_waits.clone(), limit }.load(pg)
        })
    }

    fn lease_catching_up(
        &self,
        limit: u32,
        lease: Duration,
        until: Option<OffsetDateTime>,
        tax_waits: &[OrganizationId],
    ) -> Result<Vec<Leased>, Error> {
        let find = FindFurthestBehind { until, tax_waits: uuids(tax_waits) };
        let found = self.of_each_lane(|pg| find.clone().load::<(Uuid, OffsetDateTime, Uuid)>(pg))?;
        let mut furthest: BTreeMap<Uuid, (OffsetDateTime, Uuid)> = BTreeMap::new();
        for (organization, due_at, customer) in found.into_iter().flatten() {
            let known = furthest.entry(organization).or_insert((due_at, customer));
            *known = (due_at, customer).min(*known);
        }
        if furthest.is_empty() {
            return Ok(Vec::new());
        }
        let customers: Vec<Uuid> = furthest.into_values().map(|(_, customer)| customer).collect();
        let lease_ms = milliseconds(lease);
        // Whoever is in another lane is not found.
        self.lease_by_turns(limit, |pg, limit| {
            LeaseCatchingUp { lease_ms, customers: customers.clone(), limit }.load(pg)
        })
    }

    fn put_off(&self, leased: &Leased, reason: &str, retry_after: Duration) -> Result<(), Error> {
        let statement = PutOff {
            reason: reason.to_owned(),
            wait_ms: milliseconds(retry_after),
            organization: leased.organization.uuid(),
            customer: leased.customer.uuid(),
            failures: i64::from(leased.failures),
        };
        let lane = self.shared.lanes.of(leased.customer);
        let put_off = self.shared.lanes.with(lane, |lane| lane.pool.run(|pg| statement.clone().execute(pg)));
        put_off.map(drop).map_err(Failure::into_error)
    }

    fn wait_for_tax(&self, leased: &[Leased], at_most: Duration) -> Result<(), Error> {
        let wait_ms = milliseconds(at_most);
        let mut by_lane: BTreeMap<usize, Vec<&Leased>> = BTreeMap::new();
        leased.iter().for_each(|one| by_lane.entry(self.shared.lanes.of(one.customer).number).or_default().push(one));
        for (lane, leased) in by_lane {
            let customers = leased.iter().map(|one| one.customer.uuid()).collect();
            let failures = leased.iter().map(|one| i64::from(one.failures)).collect();
            let statement = WaitForTax { wait_ms, customers, failures };
            let lane = self.shared.lanes.at(lane);
            let waiting = self.shared.lanes.with(lane, |lane| lane.pool.run(|pg| statement.clone().execute(pg)));
            waiting.map_err(Failure::into_error)?;
        }
        Ok(())
    }

    fn list_parked(&self, limit: u32) -> Result<Vec<Parked>, Error> {
        let statement = ListParked { limit: i64::from(limit) };
        let rows: Vec<ParkedRow> = self.of_each_lane(|pg| statement.clone().load(pg))?.into_iter().flatten().collect();
        let mut parked = rows.into_iter().map(Parked::try_from).collect::<Result<Vec<_>, Error>>()?;
        parked.sort_by(|a, b| {
            let place = |one: &Parked| (one.due_at, one.organization, one.customer.as_str().to_owned());
            place(a).cmp(&place(b))
        });
        parked.truncate(limit as usize);
        Ok(parked)
    }

    fn release_parked(&self) -> Result<u64, Error> {
        let released = self.of_each_lane(|pg| ReleaseParked { failures: 0 }.execute(pg))?;
        Ok(released.into_iter().sum::<usize>() as u64)
    }

    fn backlog(&self) -> Result<Backlog, Error> {
        let rows: Vec<BacklogRow> = self.of_each_lane(|pg| ReadBacklog {}.get_result(pg))?;
        let sum = |of: fn(&BacklogRow) -> i64| rows.iter().map(of).sum::<i64>();
        let lag = rows.iter().filter_map(|row| Some(row.now - row.first_due_at?)).max();
        Ok(Backlog {
            customers: count(sum(|row| row.customers))?,
            lag: lag.unwrap_or(Duration::ZERO),
            failing: count(sum(|row| row.failing))?,
            parked: count(sum(|row| row.parked))?,
            catching_up: count(sum(|row| row.catching_up))?,
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
        let rows = self.of_each_lane(|pg| statement.clone().load::<(Uuid, Uuid, Uuid)>(pg))?;
        let mut rows: Vec<_> = rows.into_iter().flatten().collect();
        // By organization, in the order of keys: lanes are ranges of them.
        rows.sort_by_key(|(organization, ..)| *organization);
        let mut of_organization = (Uuid::nil(), 0);
        rows.retain(|(organization, ..)| {
            of_organization = if of_organization.0 == *organization {
                (*organization, of_organization.1 + 1)
            } else {
                (*organization, 1)
            };
            of_organization.1 <= each
        });
        Ok(rows
            .into_iter()
            .map(|(organization, clock, customer)| (organization.into(), clock.into(), customer.into()))
            .collect())
    }
}
