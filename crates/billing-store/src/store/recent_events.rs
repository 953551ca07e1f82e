//! The events that came in lately: noted by each process now and then, read for whoever looks after an organization.

use std::collections::{BTreeMap, HashSet};

use billing_domain::Error;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{EventMinute, EventTally, RecentEvents, UNCOUNTED_MAX, UncountedEvents, UncountedReason};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::PgStore;
use crate::pg::column::{count, unreadable};
use crate::pg::error::Failure;
use crate::pg::statement::statement;

statement! {
    /// Adds to minutes of organizations, in one order, so that of two processes one waits for the other.
    AddMinutes -> BigInt {
        "INSERT INTO event_minutes AS known (organization_id, minute, stored, of_unknown_customers, of_unknown_names)
        SELECT * FROM unnest(" organizations: Vec<Uuid> as Array<SqlUuid>; ", " minutes: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " stored: Vec<i64> as Array<BigInt>; ", " of_unknown_customers: Vec<i64> as Array<BigInt>; ",
            " of_unknown_names: Vec<i64> as Array<BigInt>; ") AS counted
        ORDER BY 1, 2
        ON CONFLICT (organization_id, minute) DO UPDATE SET
            stored = known.stored + excluded.stored,
            of_unknown_customers = known.of_unknown_customers + excluded.of_unknown_customers,
            of_unknown_names = known.of_unknown_names + excluded.of_unknown_names"
    }
}

statement! {
    /// Adds to what counts for nothing; anew, where none had come for a day.
    AddUncounted -> BigInt {
        "INSERT INTO uncounted_events AS known
            (organization_id, reason, subject, event_name, customer_id, event_count, first_at, last_at)
        SELECT * FROM unnest(" organizations: Vec<Uuid> as Array<SqlUuid>; ", " reasons: Vec<String> as Array<Text>; ",
            " subjects: Vec<String> as Array<Text>; ", " event_names: Vec<String> as Array<Text>; ",
            " customers: Vec<String> as Array<Text>; ", " counts: Vec<i64> as Array<BigInt>; ",
            " first: Vec<OffsetDateTime> as Array<Timestamptz>; ", " last: Vec<OffsetDateTime> as Array<Timestamptz>; ") AS counted
        ORDER BY 1, 2, 3
        ON CONFLICT (organization_id, reason, subject) DO UPDATE SET
            event_name = excluded.event_name,
            customer_id = excluded.customer_id,
            event_count = excluded.event_count
                + CASE WHEN known.last_at > excluded.first_at - interval '1 day' THEN known.event_count ELSE 0 END,
            first_at = CASE
                WHEN known.last_at > excluded.first_at - interval '1 day' THEN least(known.first_at, excluded.first_at)
                ELSE excluded.first_at
            END,
            last_at = greatest(known.last_at, excluded.last_at)"
    }
}

statement! {
    /// Drops what is not told of any more: old minutes, and of what counts for nothing all but the latest hundred of a day.
    DropOld -> BigInt {
        "WITH ranked AS (
            SELECT organization_id, reason, subject, last_at,
                row_number() OVER (PARTITION BY organization_id ORDER BY last_at DESC, reason, subject) AS place
            FROM uncounted_events WHERE organization_id = ANY (" of_uncounted: Vec<Uuid> as Array<SqlUuid>; ")
        ), dropped AS (
            DELETE FROM uncounted_events one USING ranked
            WHERE one.organization_id = ranked.organization_id AND one.reason = ranked.reason AND one.subject = ranked.subject
                AND (ranked.place > 100 OR ranked.last_at <= statement_timestamp() - interval '1 day')
        )
        DELETE FROM event_minutes
        WHERE organization_id = ANY (" of_minutes: Vec<Uuid> as Array<SqlUuid>; ")
            AND minute < statement_timestamp() - interval '2 hours'"
    }
}

statement! {
    /// Every minute of the last hour, the one that runs last.
    ReadMinutes -> (Timestamptz, BigInt, BigInt, BigInt) {
        "SELECT told.minute, coalesce(stored, 0), coalesce(of_unknown_customers, 0), coalesce(of_unknown_names, 0)
        FROM generate_series(
            date_trunc('minute', statement_timestamp()) - interval '59 minutes', date_trunc('minute', statement_timestamp()),
            interval '1 minute'
        ) AS told (minute)
        LEFT JOIN (
            SELECT * FROM event_minutes WHERE organization_id = " organization: Uuid as SqlUuid; "
        ) counted ON counted.minute = told.minute
        ORDER BY told.minute"
    }
}

statement! {
    /// What came within a day and counted for nothing, the latest first, without names that a metric counts by now.
    ReadUncounted -> (Text, Text, Text, BigInt, Timestamptz, Timestamptz) {
        "SELECT one.reason, one.event_name, one.customer_id, one.event_count, one.first_at, one.last_at
        FROM uncounted_events one
        WHERE one.organization_id = " organization: Uuid as SqlUuid; "
            AND one.last_at > statement_timestamp() - interval '1 day'
            AND NOT (one.reason = 'unknown_event_name' AND EXISTS (
                SELECT FROM metrics metric
                WHERE metric.organization_id = one.organization_id
                    AND (metric.event_name = one.subject OR metric.metric_type = 'custom')
            ))
        ORDER BY one.last_at DESC, one.reason, one.subject
        LIMIT 100"
    }
}

statement! {
    /// Which of some customers are there.
    ReadPresent -> SqlUuid {
        "SELECT customer_key FROM customers
        WHERE customer_key = ANY (" customers: Vec<Uuid> as Array<SqlUuid>; ") AND organization_id = " organization: Uuid as SqlUuid; ""
    }
}

/// A row of [`ReadUncounted`].
#[derive(Queryable)]
struct UncountedRow {
    reason: String,
    event_name: String,
    customer: String,
    event_count: i64,
    first_at: OffsetDateTime,
    last_at: OffsetDateTime,
}

impl TryFrom<UncountedRow> for UncountedEvents {
    type Error = Error;

    fn try_from(row: UncountedRow) -> Result<Self, Error> {
        Ok(Self {
            reason: row.reason.parse().map_err(|_| unreadable("reason"))?,
            event_name: row.event_name,
            customer: row.customer.parse().map_err(|_| unreadable("customer_id"))?,
            event_count: count(row.event_count)?,
            first_at: row.first_at,
            last_at: row.last_at,
        })
    }
}

impl AddMinutes {
    fn of(tallies: &BTreeMap<OrganizationId, EventTally>) -> Self {
        let minutes = |(id, tally): (&OrganizationId, &EventTally)| {
            let of = *id;
            tally.minutes().map(move |minute| (of.uuid(), *minute)).collect::<Vec<_>>()
        };
        let rows: Vec<(Uuid, EventMinute)> = tallies.iter().flat_map(minutes).collect();
        let column = |value: fn(&EventMinute) -> u64| rows.iter().map(|(_, minute)| signed(value(minute))).collect();
        Self {
            organizations: rows.iter().map(|(id, _)| *id).collect(),
            minutes: rows.iter().map(|(_, minute)| minute.start).collect(),
            stored: column(|minute| minute.stored),
            of_unknown_customers: column(|minute| minute.of_unknown_customers),
            of_unknown_names: column(|minute| minute.of_unknown_names),
        }
    }
}

impl AddUncounted {
    fn of(tallies: &BTreeMap<OrganizationId, EventTally>) -> Self {
        let uncounted = |(id, tally)| {
            let (id, tally): (&OrganizationId, &EventTally) = (id, tally);
            tally.uncounted().map(|one| (id.uuid(), one)).collect::<Vec<_>>()
        };
        let rows: Vec<(Uuid, &UncountedEvents)> = tallies.iter().flat_map(uncounted).collect();
        fn column<T>(rows: &[(Uuid, &UncountedEvents)], value: impl Fn(&UncountedEvents) -> T) -> Vec<T> {
            rows.iter().map(|(_, one)| value(one)).collect()
        }
        Self {
            organizations: rows.iter().map(|(id, _)| *id).collect(),
            reasons: column(&rows, |one| one.reason.to_string()),
            subjects: column(&rows, |one| one.subject().to_owned()),
            event_names: column(&rows, |one| one.event_name.clone()),
            customers: column(&rows, |one| one.customer.as_str().to_owned()),
            counts: column(&rows, |one| signed(one.event_count)),
            first: column(&rows, |one| one.first_at),
            last: column(&rows, |one| one.last_at),
        }
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl PgStore {
    /// [`billing_domain::store::Overviews::note_events`]: what could not be noted is noted with the next.
    pub(super) fn note_event_tallies(&self) -> Result<(), Error> {
        let tallies = self.shared.tallies.take();
        if tallies.is_empty() {
            return Ok(());
        }
        let (minutes, uncounted) = (AddMinutes::of(&tallies), AddUncounted::of(&tallies));
        let noted = self.shared.worker_pool.transact_again(|pg| {
            minutes.clone().execute(pg)?;
            if !uncounted.subjects.is_empty() {
                uncounted.clone().execute(pg)?;
            }
            Ok(())
        });
        if let Err(failure) = noted {
            tallies.into_iter().for_each(|(organization, tally)| self.shared.tallies.add(organization, tally));
            return Err(failure.into_error());
        }
        let drop_old = DropOld { of_uncounted: uncounted.organizations, of_minutes: minutes.organizations };
        self.shared.worker_pool.run(|pg| drop_old.clone().execute(pg)).map(drop).map_err(Failure::into_error)
    }

    /// [`billing_domain::store::Overviews::recent_events`].
    pub(super) fn read_recent_events(&self, organization: OrganizationId) -> Result<RecentEvents, Error> {
        type MinuteRow = (OffsetDateTime, i64, i64, i64);
        let tenant = organization.uuid();
        let read = |pg: &mut PgConnection| {
            let minutes = ReadMinutes { organization: tenant }.load::<MinuteRow>(pg)?;
            Ok((minutes, ReadUncounted { organization: tenant }.load::<UncountedRow>(pg)?))
        };
        let (minutes, uncounted) = self.shared.pool.run(read).map_err(Failure::into_error)?;
        let minute = |(start, stored, of_unknown_customers, of_unknown_names): MinuteRow| {
            Ok(EventMinute {
                start,
                stored: count(stored)?,
                of_unknown_customers: count(of_unknown_customers)?,
                of_unknown_names: count(of_unknown_names)?,
            })
        };
        let minutes = minutes.into_iter().map(minute).collect::<Result<_, Error>>()?;
        let uncounted = uncounted.into_iter().map(UncountedEvents::try_from).collect::<Result<Vec<_>, Error>>()?;
        Ok(RecentEvents { minutes, uncounted: self.still_uncounted(organization, uncounted)? })
    }

    /// Those that still count for nothing: without whose customer has come, in whichever lane.
    fn still_uncounted(
        &self,
        organization: OrganizationId,
        mut uncounted: Vec<UncountedEvents>,
    ) -> Result<Vec<UncountedEvents>, Error> {
        let key = |one: &UncountedEvents| CustomerKey::derive(organization, &one.customer);
        let strangers = uncounted.iter().filter(|one| one.reason == UncountedReason::UnknownCustomer).map(key);
        let mut present: HashSet<Uuid> = HashSet::new();
        for (lane, customers) in self.shared.lanes.apart(strangers, |customer| *customer) {
            let customers = customers.into_iter().map(|(_, customer)| customer.uuid()).collect();
            let read = ReadPresent { customers, organization: organization.uuid() };
            let found = self.shared.lanes.with(lane, |lane| lane.pool.run(|pg| read.clone().load::<Uuid>(pg)));
            present.extend(found.map_err(Failure::into_error)?);
        }
        uncounted.retain(|one| one.reason != UncountedReason::UnknownCustomer || !present.contains(&key(one).uuid()));
        uncounted.truncate(UNCOUNTED_MAX);
        Ok(uncounted)
    }
}
