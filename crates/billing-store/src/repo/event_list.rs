//! Lists of events, as they are now or as somebody saw them.

use std::collections::HashMap;

use billing_domain::Error;
use billing_domain::event::{EventCorrection, EventHistory, EventState, EventVersion, KeptEvent};
use billing_domain::id::CustomerKey;
use billing_domain::store::{EventCursor, EventFilter, Page, PageRequest, SharedIdCursor, Transaction as _};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Json, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::event::{EventRow, MOVED, id_hash};
use super::event_correction::CorrectionRow;
use crate::pg::column::count;
use crate::pg::schema::{event_corrections, events};
use crate::pg::statement::statement;
use crate::transaction::PgTransaction;

/// Events that are read at once where only some of them are wanted.
const EVENTS_AT_ONCE: u32 = 2_000;
/// Most events that are read for one page.
const EVENTS_PER_PAGE_MAX: u32 = 50_000;

statement! {
    /// A customer's events that counted for whoever saw up to an arrival number, as they were then, newest first: whose row has not
    /// changed since, and what was kept of the others.
    ListSeen -> (Text, Text, Text, Timestamptz, Json, SmallInt) {
        "WITH wanted AS (
            SELECT " customer: Uuid as SqlUuid; " AS customer_key, " organization: Uuid as SqlUuid; " AS organization_id,
                " seen_to: i64 as BigInt; " AS seen_to, " name: Option<String> as Nullable<Text>; " AS name,
                " hash: Option<Uuid> as Nullable<SqlUuid>; " AS id_hash,
                coalesce(" from: Option<OffsetDateTime> as Nullable<Timestamptz>; ", '-infinity') AS start_at,
                coalesce(" to: Option<OffsetDateTime> as Nullable<Timestamptz>; ", 'infinity') AS end_at,
                coalesce(" after_at: Option<OffsetDateTime> as Nullable<Timestamptz>; ", 'infinity') AS after_at,
                " after_id: Option<String> as Nullable<Text>; " AS after_id,
                " limit: i64 as BigInt; " AS row_limit
        )
        SELECT seen.customer_id, seen.event_name, seen.idempotency_id, seen.time_created, seen.properties, seen.correction
        FROM wanted
        CROSS JOIN LATERAL (
            (
                SELECT event.customer_id, event.event_name, event.idempotency_id, event.time_created, event.properties, event.correction
                FROM events event
                WHERE event.customer_key = wanted.customer_key AND event.organization_id = wanted.organization_id
                    AND event.correction < 2 AND event.arrival <= wanted.seen_to
                    AND (wanted.name IS NULL OR event.event_name = wanted.name)
                    AND (wanted.id_hash IS NULL OR event.id_hash = wanted.id_hash)
                    AND event.time_created >= wanted.start_at AND event.time_created < wanted.end_at
                    AND event.time_created <= wanted.after_at
                    AND (
                        wanted.after_id IS NULL OR event.time_created < wanted.after_at
                        OR event.idempotency_id COLLATE \"C\" < wanted.after_id
                    )
                ORDER BY event.time_created DESC, event.idempotency_id COLLATE \"C\" DESC
                LIMIT (SELECT row_limit FROM wanted)
            )
            UNION ALL
            (
                SELECT kept.customer_id, kept.event_name, kept.idempotency_id, kept.time_created, kept.properties, (
                    SELECT count(*) FROM event_corrections before
                    WHERE before.customer_key = kept.customer_key AND before.id_hash = kept.id_hash AND before.arrival = kept.arrived
                )::smallint
                FROM event_corrections kept
                WHERE kept.customer_key = wanted.customer_key AND kept.organization_id = wanted.organization_id
                    AND kept.arrived <= wanted.seen_to AND wanted.seen_to < kept.arrival
                    AND (wanted.name IS NULL OR kept.event_name = wanted.name)
                    AND (wanted.id_hash IS NULL OR kept.id_hash = wanted.id_hash)
                    AND kept.time_created >= wanted.start_at AND kept.time_created < wanted.end_at
                    AND kept.time_created <= wanted.after_at
                    AND (
                        wanted.after_id IS NULL OR kept.time_created < wanted.after_at
                        OR kept.idempotency_id COLLATE \"C\" < wanted.after_id
                    )
                ORDER BY kept.time_created DESC, kept.idempotency_id COLLATE \"C\" DESC
                LIMIT (SELECT row_limit FROM wanted)
            )
        ) seen
        ORDER BY seen.time_created DESC, seen.idempotency_id COLLATE \"C\" DESC
        LIMIT (SELECT row_limit FROM wanted)"
    }
}

/// An event's row with what only its history says.
#[derive(Queryable)]
struct HistoryRow {
    event: EventRow,
    received_at: OffsetDateTime,
    arrival: i64,
}

/// A correction with the arrival numbers of the event before it and since.
#[derive(Queryable)]
struct NumberedCorrection {
    correction: CorrectionRow,
    arrived: i64,
    arrival: i64,
}

impl PgTransaction<'_> {
    /// [`billing_domain::store::EventRepo::list`].
    pub(super) fn list_events(&mut self, filter: &EventFilter, page: &PageRequest) -> Result<Page<KeptEvent>, Error> {
        let mut after = page.after.as_deref().map(EventCursor::parse).transpose()?;
        let is_sifted = !filter.properties.is_empty() || !filter.metrics.is_empty() || filter.state.is_some();
        let at_once = if is_sifted { EVENTS_AT_ONCE } else { page.limit.saturating_add(1) };
        let (mut items, mut read) = (Vec::new(), 0);
        loop {
            let rows = self.next_events(filter, after.as_ref(), at_once)?;
            let is_end = rows.len() < at_once as usize;
            read += at_once;
            for kept in rows {
                if items.len() == page.limit as usize {
                    let next = items.last().map(|kept: &KeptEvent| EventCursor::of(&kept.event).to_text());
                    return Ok(Page { items, next });
                }
                after = Some(EventCursor::of(&kept.event));
                if filter.takes(&kept.event) && filter.state.is_none_or(|state| kept.state == state) {
                    items.push(kept);
                }
            }
            if is_end {
                return Ok(Page { items, next: None });
            }
            if read >= EVENTS_PER_PAGE_MAX {
                return Ok(Page { items, next: after.map(|after| after.to_text()) });
            }
        }
    }

    /// The next events by name, id and time alone.
    fn next_events(
        &mut self,
        filter: &EventFilter,
        after: Option<&EventCursor>,
        limit: u32,
    ) -> Result<Vec<KeptEvent>, Error> {
        let rows = match filter.seen_to {
            Some(seen_to) => {
                let seen_to = i64::try_from(seen_to).unwrap_or(i64::MAX);
                self.read_seen(filter, seen_to, after, limit)?
            }
            None => self.read_present(filter, after, limit)?,
        };
        rows.into_iter().map(KeptEvent::try_from).collect()
    }

    fn read_seen(
        &mut self,
        filter: &EventFilter,
        seen_to: i64,
        after: Option<&EventCursor>,
        limit: u32,
    ) -> Result<Vec<EventRow>, Error> {
        let statement = ListSeen {
            customer: filter.customer.uuid(),
            organization: self.tenant(),
            seen_to,
            name: filter.name.clone(),
            hash: filter.idempotency_id.as_deref().map(id_hash),
            from: filter.from,
            to: filter.to,
            after_at: after.map(|after| after.time_created),
            after_id: after.map(|after| after.idempotency_id.clone()),
            limit: i64::from(limit),
        };
        self.query(|pg| statement.load(pg))
    }

    fn read_present(
        &mut self,
        filter: &EventFilter,
        after: Option<&EventCursor>,
        limit: u32,
    ) -> Result<Vec<EventRow>, Error> {
        let of_customer =
            events::organization_id.eq(self.tenant()).and(events::customer_key.eq(filter.customer.uuid()));
        let mut query = events::table.filter(of_customer).filter(events::correction.ne(MOVED)).into_boxed();
        if let Some(name) = &filter.name {
            query = query.filter(events::event_name.eq(name));
        }
        if let Some(id) = &filter.idempotency_id {
            query = query.filter(events::id_hash.eq(id_hash(id)).and(events::idempotency_id.eq(id)));
        }
        if let Some(from) = filter.from {
            query = query.filter(events::time_created.ge(from));
        }
        if let Some(to) = filter.to {
            query = query.filter(events::time_created.lt(to));
        }
        if let Some(after) = after {
            // The first condition is for the index.
            query = query.filter(events::time_created.le(after.time_created)).filter(
                events::time_created
                    .lt(after.time_created)
                    .or(sql::<Bool>("idempotency_id COLLATE \"C\" < ").bind::<Text, _>(after.idempotency_id.clone())),
            );
        }
        let query = query
            .order((events::time_created.desc(), sql::<Text>("idempotency_id COLLATE \"C\" DESC")))
            .limit(i64::from(limit))
            .select(EventRow::as_select());
        self.query(|pg| query.load(pg))
    }

    /// At most one more than `limit` of the events with an id, whosever they are, in the order of
    /// [`billing_domain::store::EventRepo::list_with_id`]: that of the index of each month that ids are unique by, which is read until
    /// there are enough.
    pub(crate) fn events_with_id(
        &mut self,
        idempotency_id: &str,
        after: Option<SharedIdCursor>,
        limit: u32,
    ) -> Result<Vec<KeptEvent>, Error> {
        let with_id = events::id_hash.eq(id_hash(idempotency_id)).and(events::idempotency_id.eq(idempotency_id));
        let mut query = events::table
            .filter(with_id.and(events::organization_id.eq(self.tenant())))
            .filter(events::correction.ne(MOVED))
            .into_boxed();
        if let Some(SharedIdCursor { customer, time_created }) = after {
            let customer = customer.uuid();
            // The first condition is for the index.
            query = query
                .filter(events::customer_key.ge(customer))
                .filter(events::customer_key.gt(customer).or(events::time_created.gt(time_created)));
        }
        let query = query
            .order((events::customer_key, events::time_created))
            .limit(i64::from(limit) + 1)
            .select(EventRow::as_select());
        let rows: Vec<EventRow> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(KeptEvent::try_from).collect()
    }

    /// Events with the texts of their places among those with their id.
    pub(super) fn placed_by_owner(&self, found: Vec<KeptEvent>) -> Vec<(String, KeptEvent)> {
        let place = |kept: &KeptEvent| SharedIdCursor::of(self.organization(), &kept.event).to_text();
        found.into_iter().map(|kept| (place(&kept), kept)).collect()
    }

    /// [`billing_domain::store::EventRepo::histories`].
    pub(super) fn histories_of(
        &mut self,
        customer: CustomerKey,
        idempotency_id: &str,
    ) -> Result<Vec<EventHistory>, Error> {
        let hash = id_hash(idempotency_id);
        let query = events::table
            .filter(events::customer_key.eq(customer.uuid()).and(events::organization_id.eq(self.tenant())))
            .filter(events::id_hash.eq(hash).and(events::idempotency_id.eq(idempotency_id)))
            .filter(events::correction.ne(MOVED))
            .order(events::time_created.desc())
            .select((EventRow::as_select(), events::received_at, events::arrival));
        let found: Vec<HistoryRow> = self.query(|pg| query.load(pg))?;
        let query = event_corrections::table
            .filter(event_corrections::customer_key.eq(customer.uuid()))
            .filter(event_corrections::organization_id.eq(self.tenant()).and(event_corrections::id_hash.eq(hash)))
            .filter(event_corrections::idempotency_id.eq(idempotency_id))
            .select((CorrectionRow::as_select(), event_corrections::arrived, event_corrections::arrival));
        let corrections: Vec<NumberedCorrection> = self.query(|pg| query.load(pg))?;
        let mut by_arrival: HashMap<i64, NumberedCorrection> =
            corrections.into_iter().map(|numbered| (numbered.arrival, numbered)).collect();
        found.into_iter().map(|row| row.into_history(&mut by_arrival)).collect()
    }
}

impl HistoryRow {
    /// The row with what it was before: each correction knows the arrival number of what it corrected.
    fn into_history(self, corrections: &mut HashMap<i64, NumberedCorrection>) -> Result<EventHistory, Error> {
        let kept = KeptEvent::try_from(self.event)?;
        let (mut versions, mut made) = (Vec::new(), Vec::new());
        let mut until = None;
        let mut arrival = self.arrival;
        if kept.state != EventState::Voided {
            versions.push(EventVersion { event: kept.event, arrival: count(arrival)?, until });
        }
        while let Some(NumberedCorrection { correction, arrived, .. }) = corrections.remove(&arrival) {
            until = Some(count(arrival)?);
            arrival = arrived;
            let correction = EventCorrection::try_from(correction)?;
            versions.push(EventVersion { event: correction.before.clone(), arrival: count(arrival)?, until });
            made.push(correction);
        }
        versions.reverse();
        made.reverse();
        Ok(EventHistory { received_at: self.received_at, state: kept.state, versions, corrections: made })
    }
}
