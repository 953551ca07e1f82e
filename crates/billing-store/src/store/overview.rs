//! How an organization stands: sums of each lane, added up.

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Zero};
use billing_domain::Error;
use billing_domain::id::OrganizationId;
use billing_domain::store::{
    EventWatch, ExchangedEvents, Invoiced, Overview, Overviews, PassedEvents, Queued, RecentEvents,
};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable, Numeric, Text, Timestamptz, Uuid as SqlUuid};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::PgStore;
use crate::lanes::Lane;
use crate::pg::column::{count, unreadable};
use crate::pg::error::Failure;
use crate::pg::statement::statement;

statement! {
    /// What was invoiced by currency, in this month, in the one before, and in that as early as it is in this one: sums of hours, and the invoices of the hour in
    /// which that was.
    SumInvoiced -> (Text, Numeric, Numeric, Numeric) {
        "WITH month AS (
            SELECT start, before, least(start, before + make_interval(secs => extract(epoch FROM statement_timestamp() - start)::double precision)) AS cut
            FROM (SELECT date_trunc('month', statement_timestamp(), 'UTC') AS start) this
            CROSS JOIN LATERAL (SELECT date_trunc('month', start - interval '1 day', 'UTC') AS before) last
        )
        SELECT currency_code, coalesce(sum(amount) FILTER (WHERE hour >= start), 0), coalesce(sum(amount) FILTER (WHERE hour < start), 0),
            coalesce(sum(amount) FILTER (WHERE hour < date_trunc('hour', cut, 'UTC')), 0) + coalesce(sum(of_this_hour), 0)
        FROM month CROSS JOIN LATERAL (
            SELECT currency_code, hour, amount, NULL::numeric AS of_this_hour
            FROM invoiced_hours
            WHERE organization_id = " organization: Uuid as SqlUuid; " AND hour >= before AND hour < date_trunc('month', start + interval '32 days', 'UTC')
            UNION ALL
            SELECT currency_code, NULL, NULL, amount
            FROM invoices
            JOIN customers USING (organization_id, customer_key)
            WHERE organization_id = " organization_again: Uuid as SqlUuid; " AND issued_at >= date_trunc('hour', cut, 'UTC') AND issued_at <= cut
                AND issued_at < start AND test_clock_id IS NULL AND payment_status <> 'voided'
        ) summed
        GROUP BY currency_code"
    }
}

statement! {
    /// How many customers are due and parked, since when the first of the others is due, and what time it is.
    CountDue -> (BigInt, BigInt, Nullable<Timestamptz>, Timestamptz) {
        "SELECT count(*), count(*) FILTER (WHERE is_parked), min(due_at) FILTER (WHERE NOT is_parked), clock_timestamp()
        FROM billing_due
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND due_at <= statement_timestamp()"
    }
}

statement! {
    /// How many webhook endpoints fail.
    CountFailing -> BigInt {
        "SELECT count(*) FROM webhook_endpoints
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND status = 'enabled' AND failing_since IS NOT NULL"
    }
}

statement! {
    /// Customers whose billing is due, parked ones first, then those that failed.
    ListDue -> (Text, Timestamptz, BigInt, Nullable<Text>, Bool) {
        "SELECT customer.customer_id, due.due_at, due.failures, due.failure, due.is_parked
        FROM billing_due due
        JOIN customers customer USING (customer_key)
        WHERE due.organization_id = " organization: Uuid as SqlUuid; " AND due.due_at <= statement_timestamp()
        ORDER BY due.is_parked DESC, due.failures > 0 DESC, due.due_at, customer.customer_id COLLATE \"C\"
        LIMIT " limit: i64 as BigInt; ""
    }
}

/// A row of [`ListDue`].
#[derive(Queryable)]
struct DueCustomerRow {
    customer: String,
    due_at: OffsetDateTime,
    failures: i64,
    failure: Option<String>,
    is_parked: bool,
}

impl TryFrom<DueCustomerRow> for Queued {
    type Error = Error;

    fn try_from(row: DueCustomerRow) -> Result<Self, Error> {
        Ok(Self {
            customer: row.customer.parse().map_err(|_| unreadable("customer_id"))?,
            due_at: row.due_at,
            failures: count(row.failures)?,
            failure: row.failure.filter(|_| row.failures > 0),
            is_parked: row.is_parked,
        })
    }
}

impl Overviews for PgStore {
    fn recent_events(&self, organization: OrganizationId) -> Result<RecentEvents, Error> {
        self.read_recent_events(organization)
    }

    fn note_events(&self) -> Result<(), Error> {
        self.note_event_tallies()
    }

    fn exchange_events(
        &self,
        process: Uuid,
        watched: &[EventWatch],
        gathered: Vec<PassedEvents>,
    ) -> Result<ExchangedEvents, Error> {
        self.exchange_watched_events(process, watched, &gathered)
    }

    fn billing_queue(&self, organization: OrganizationId, limit: u32) -> Result<Vec<Queued>, Error> {
        let mut queued = Vec::new();
        for lane in self.shared.lanes.all() {
            let list = ListDue { organization: organization.uuid(), limit: i64::from(limit) };
            let rows = self.shared.lanes.with(lane, |lane| lane.pool.run(|pg| list.clone().load::<DueCustomerRow>(pg)));
            let rows = rows.map_err(Failure::into_error)?;
            queued.extend(rows.into_iter().map(Queued::try_from).collect::<Result<Vec<_>, Error>>()?);
        }
        queued.sort_by_key(|one| (!one.is_parked, one.failures == 0, one.due_at, one.customer.clone()));
        queued.truncate(limit as usize);
        Ok(queued)
    }

    fn overview(&self, organization: OrganizationId) -> Result<Overview, Error> {
        type DueRow = (i64, i64, Option<OffsetDateTime>, OffsetDateTime);
        type SumRow = (String, BigDecimal, BigDecimal, BigDecimal);
        let organization = organization.uuid();
        let mut overview = Overview::default();
        let mut invoiced: BTreeMap<String, [BigDecimal; 3]> = BTreeMap::new();
        for lane in self.shared.lanes.all() {
            let sum = |lane: &Lane| {
                lane.pool.run(|pg| SumInvoiced { organization, organization_again: organization }.load::<SumRow>(pg))
            };
            let sums = self.shared.lanes.with(lane, sum);
            for (code, this_month, last_month, so_far) in sums.map_err(Failure::into_error)? {
                let sums = invoiced.entry(code).or_default();
                for (sum, part) in sums.iter_mut().zip([this_month, last_month, so_far]) {
                    *sum += part;
                }
            }
            let count_due = |lane: &Lane| lane.pool.run(|pg| CountDue { organization }.get_result::<DueRow>(pg));
            let due = self.shared.lanes.with(lane, count_due);
            let (due, parked, first, now) = due.map_err(Failure::into_error)?;
            overview.customers_due += count::<u64>(due)?;
            overview.customers_parked += count::<u64>(parked)?;
            let lag = first.map_or(Duration::ZERO, |first| now - first);
            overview.lag = overview.lag.max(lag);
        }
        overview.invoiced = invoiced
            .into_iter()
            // Of what was voided altogether there is a sum too.
            .filter(|(_, sums)| sums.iter().any(|sum| !sum.is_zero()))
            .map(|(currency_code, [this_month, last_month, last_month_so_far])| Invoiced {
                currency_code,
                this_month,
                last_month,
                last_month_so_far,
            })
            .collect();
        let failing = self.shared.pool.run(|pg| CountFailing { organization }.get_result::<i64>(pg));
        overview.webhooks_failing = count(failing.map_err(Failure::into_error)?)?;
        Ok(overview)
    }
}
