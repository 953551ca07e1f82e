//! Reading events.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

use billing_domain::Error;
use billing_domain::custom_sql::{CustomFailure, CustomUsageRequest};
use billing_domain::event::{Event, EventCorrection, EventHistory, EventState, KeptEvent, Properties};
use billing_domain::id::{CustomerKey, JobId};
use billing_domain::store::{EventFilter, EventRepo, Page, PageRequest, SharedIdCursor};
use billing_domain::usage::{SeenUsage, UsageRequest};
use diesel::deserialize::{FromSql, FromSqlRow};
use diesel::dsl::sql;
use diesel::pg::{Pg, PgValue};
use diesel::prelude::*;
use diesel::sql_types::{Array, Bool, Json, Text, Timestamptz, Uuid as SqlUuid};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use super::customer::page_of;
use crate::pg::column::unreadable;
use crate::pg::error::Failure;
use crate::pg::month::Month;
use crate::pg::partition;
use crate::pg::schema::events;
use crate::pg::statement::{partition_statement, statement};
use crate::transaction::PgTransaction;

/// What stands in `events.correction`, from which on an event counts for nothing.
const COUNTS_BELOW: i16 = VOIDED;
const AMENDED: i16 = 1;
const VOIDED: i16 = 2;
/// In the month that its time was thought to be in: it stands for the id alone.
pub(super) const MOVED: i16 = 3;

/// Most events held in memory at once.
const EVENTS_MAX: i64 = 5_000;

partition_statement! {
    /// The customer's events in one month that have one of the ids: the id, and when.
    FindOfCustomer -> (Text, Timestamptz) {
        "SELECT known.idempotency_id, known.time_created
        FROM unnest(" hashes: Vec<Uuid> as Array<SqlUuid>; ") AS wanted (id_hash)
        CROSS JOIN (SELECT " customer: Uuid as SqlUuid; "::uuid AS customer_key) whose
        CROSS JOIN LATERAL (
            SELECT event.* FROM " @ " event
            WHERE event.id_hash = wanted.id_hash AND event.customer_key = whose.customer_key
            OFFSET 0
        ) known
        WHERE known.organization_id = " organization: Uuid as SqlUuid; ""
    }
}

partition_statement! {
    /// Anybody's events in one month that have one of the ids: the id, and the latest time.
    FindOfAnybody -> (Text, Timestamptz) {
        "SELECT known.idempotency_id, max(known.time_created)
        FROM unnest(" hashes: Vec<Uuid> as Array<SqlUuid>; ") AS wanted (id_hash)
        CROSS JOIN LATERAL (
            SELECT event.* FROM " @ " event WHERE event.id_hash = wanted.id_hash OFFSET 0
        ) known
        WHERE known.organization_id = " organization: Uuid as SqlUuid; "
        GROUP BY known.idempotency_id"
    }
}

statement! {
    /// When the first of a customer's events happens that counts and is dated after an instant.
    NextAfter -> Timestamptz {
        "SELECT time_created FROM events
        WHERE customer_key = " customer: Uuid as SqlUuid; " AND organization_id = " organization: Uuid as SqlUuid; "
            AND time_created > " instant: OffsetDateTime as Timestamptz; " AND correction < 2
        ORDER BY time_created LIMIT 1"
    }
}

/// The first 16 bytes of the SHA-256 of an idempotency id: an index entry of one size, whatever the sender chose.
pub(crate) fn id_hash(idempotency_id: &str) -> Uuid {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(Sha256::digest(idempotency_id.as_bytes())).for_each(|(to, from)| *to = from);
    Uuid::from_bytes(bytes)
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = events, check_for_backend(Pg))]
pub(crate) struct EventRow {
    customer_id: String,
    event_name: String,
    idempotency_id: String,
    time_created: OffsetDateTime,
    properties: KeptProperties,
    correction: i16,
}

/// Properties as they are kept.
#[derive(FromSqlRow)]
pub(crate) struct KeptProperties(pub(crate) Properties);

impl FromSql<Json, Pg> for KeptProperties {
    fn from_sql(value: PgValue<'_>) -> diesel::deserialize::Result<Self> {
        Ok(Self(std::str::from_utf8(value.as_bytes())?.parse()?))
    }
}

impl TryFrom<EventRow> for Event {
    type Error = Error;

    fn try_from(row: EventRow) -> Result<Self, Error> {
        Ok(Self {
            customer: row.customer_id.parse().map_err(|_| unreadable("a customer id"))?,
            name: row.event_name,
            idempotency_id: row.idempotency_id,
            time_created: row.time_created,
            properties: row.properties.0,
        })
    }
}

/// What the column `correction` of an event says.
fn state(correction: i16) -> Result<EventState, Error> {
    match correction {
        0 => Ok(EventState::Counted),
        AMENDED => Ok(EventState::Amended),
        VOIDED => Ok(EventState::Voided),
        _ => Err(unreadable("what became of an event")),
    }
}

impl TryFrom<EventRow> for KeptEvent {
    type Error = Error;

    fn try_from(row: EventRow) -> Result<Self, Error> {
        Ok(Self { state: state(row.correction)?, event: row.try_into()? })
    }
}

/// Every arrival number that there may be.
pub(crate) const ANY_ARRIVAL: RangeInclusive<i64> = i64::MIN..=i64::MAX;

/// A customer's next events of a name between two instants that count, of those with an arrival number in `arrivals`, in order of time
/// and id; none when there is no other.
pub(crate) fn events_of(
    pg: &mut PgConnection,
    (organization, customer): (Uuid, Uuid),
    name: &str,
    (start, end): (OffsetDateTime, OffsetDateTime),
    arrivals: &RangeInclusive<i64>,
    after: Option<&Event>,
) -> Result<Vec<Event>, Failure> {
    let whose = events::customer_key.eq(customer).and(events::organization_id.eq(organization));
    let within = events::time_created.ge(start).and(events::time_created.lt(end));
    let counts = events::event_name.eq(name).and(events::correction.lt(COUNTS_BELOW));
    let arrived = events::arrival.between(*arrivals.start(), *arrivals.end());
    let mut query = events::table.filter(whose).filter(within).filter(counts.and(arrived)).into_boxed();
    if let Some(after) = after {
        query = query.filter(events::time_created.ge(after.time_created)).filter(
            events::time_created
                .gt(after.time_created)
                .or(sql::<Bool>("idempotency_id COLLATE \"C\" > ").bind::<Text, _>(after.idempotency_id.clone())),
        );
    }
    let rows = query
        .order((events::time_created, sql::<Text>("idempotency_id COLLATE \"C\"")))
        .limit(EVENTS_MAX)
        .select(EventRow::as_select())
        .load(pg)?;
    Ok(rows.into_iter().map(Event::try_from).collect::<Result<Vec<_>, _>>()?)
}

impl EventRepo for PgTransaction<'_> {
    fn seen_usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<SeenUsage>, Error> {
        self.read_usages(requests)
    }

    fn warm_up(&mut self, requests: &[UsageRequest]) -> Result<(), Error> {
        PgTransaction::warm_up(self, requests)
    }

    fn seen_custom_usages(
        &mut self,
        requests: &[CustomUsageRequest],
    ) -> Result<Vec<Result<SeenUsage, CustomFailure>>, Error> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        self.run_custom(requests)
    }

    fn list(&mut self, filter: &EventFilter, page: &PageRequest) -> Result<Page<KeptEvent>, Error> {
        self.list_events(filter, page)
    }

    fn list_with_id(&mut self, idempotency_id: &str, page: &PageRequest) -> Result<Page<KeptEvent>, Error> {
        let after = page.after.as_deref().map(SharedIdCursor::parse).transpose()?;
        let found = self.events_with_id(idempotency_id, after, page.limit)?;
        Ok(page_of(self.placed_by_owner(found), page.limit))
    }

    fn find(&mut self, customer: CustomerKey, ids: &[String]) -> Result<Vec<KeptEvent>, Error> {
        self.find_events(customer, ids)
    }

    fn correct(&mut self, customer: CustomerKey, corrections: &[EventCorrection]) -> Result<(), Error> {
        self.correct_events(customer, corrections)
    }

    fn histories(&mut self, customer: CustomerKey, idempotency_id: &str) -> Result<Vec<EventHistory>, Error> {
        self.histories_of(customer, idempotency_id)
    }

    fn count_corrections(&mut self, jobs: &[JobId]) -> Result<BTreeMap<JobId, u64>, Error> {
        self.corrections_of_jobs(jobs)
    }

    fn list_corrections(&mut self, customer: CustomerKey, idempotency_id: &str) -> Result<Vec<EventCorrection>, Error> {
        self.corrections_of(customer, idempotency_id)
    }

    fn next_after(&mut self, customer: CustomerKey, instant: OffsetDateTime) -> Result<Option<OffsetDateTime>, Error> {
        let next = NextAfter { customer: customer.uuid(), organization: self.tenant(), instant };
        self.query(|pg| next.get_result(pg).optional())
    }

    fn missing(
        &mut self,
        customer: Option<CustomerKey>,
        ids: &[String],
        since: OffsetDateTime,
    ) -> Result<Vec<String>, Error> {
        let mut seen = HashSet::new();
        let mut missing: Vec<String> = ids.iter().filter(|id| seen.insert(id.as_str())).cloned().collect();
        let (organization, first) = (self.tenant(), Month::of(since));
        // A month at a time, latest first: what is asked for is mostly recent.
        for month in self.query(partition::list)?.into_iter().take_while(|month| *month >= first) {
            if missing.is_empty() {
                break;
            }
            let hashes: Vec<Uuid> = missing.iter().map(|id| id_hash(id)).collect();
            let found: Vec<(String, OffsetDateTime)> = self.query(|pg| match customer.map(CustomerKey::uuid) {
                Some(customer) => FindOfCustomer { month, hashes, customer, organization }.load(pg),
                None => FindOfAnybody { month, hashes, organization }.load(pg),
            })?;
            let known: HashSet<&str> =
                found.iter().filter(|(_, time)| *time >= since).map(|(id, _)| id.as_str()).collect();
            missing.retain(|id| !known.contains(id.as_str()));
        }
        Ok(missing)
    }
}
