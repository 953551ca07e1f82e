//! Reading usage and events.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use bigdecimal::BigDecimal;
use billing_domain::event::Event;
use billing_domain::id::CustomerKey;
use billing_domain::period::Period;
use billing_domain::store::{EventCursor, EventFilter, EventRepo, Page, PageRequest};
use billing_domain::usage::{Totals, Usage, UsageRequest};
use billing_domain::{Error, StoreError};
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{
    Array, BigInt, Bool, Integer, Nullable, Numeric, SmallInt, Text, Timestamptz, Uuid as SqlUuid,
};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::column::{count, to_json, unreadable};
use crate::ingest::id_hash;
use crate::partition::{self, Month};
use crate::rollup::{Source, dimensions_of, split};
use crate::schema::events;
use crate::statement::{partition_statement, statement};
use crate::transaction::PgTransaction;

/// Most roll-ups whose beginning is remembered.
const BEGINNINGS_MAX: usize = 100_000;

statement! {
    /// From when on roll-ups are complete.
    ReadBeginnings -> (SqlUuid, Array<Text>, Timestamptz) {
        "SELECT metric_id, filter_keys, greatest(rolled_up_from, '0001-01-01 00:00+00')
        FROM metric_rollups
        WHERE organization_id = " organization: Uuid as SqlUuid; "
            AND metric_id = ANY (" metrics: Vec<Uuid> as Array<SqlUuid>; ")"
    }
}

statement! {
    /// Adds up all parts of all requests in one statement, and so in one snapshot. What most metrics need is one pass
    /// over each part; only different texts and latest numbers take another.
    ReadUsage -> (Integer, BigInt, Numeric, Nullable<Numeric>, Nullable<Numeric>, Nullable<Numeric>, BigInt) {
        "WITH bucket_segment AS (
            SELECT * FROM unnest(
                " bucket_requests: Vec<i32> as Array<Integer>; ",
                " bucket_customers: Vec<Uuid> as Array<SqlUuid>; ",
                " bucket_metrics: Vec<Uuid> as Array<SqlUuid>; ",
                " bucket_aggregations: Vec<&'static str> as Array<Text>; ",
                " bucket_dimensions: Vec<String> as Array<Text>; ",
                " bucket_hours: Vec<i16> as Array<SmallInt>; ",
                " bucket_starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
                " bucket_ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
            ) AS segment (
                request, customer_key, metric_id, aggregation_type, dimensions, bucket_hours, start_at, end_at
            )
        ),
        event_segment AS (
            SELECT request, customer_key, event_name, aggregation_type, property_name, filters::json AS filters,
                metric_filters::json AS metric_filters, start_at, end_at
            FROM unnest(
                " event_requests: Vec<i32> as Array<Integer>; ",
                " event_customers: Vec<Uuid> as Array<SqlUuid>; ",
                " event_names: Vec<String> as Array<Text>; ",
                " event_aggregations: Vec<&'static str> as Array<Text>; ",
                " event_properties: Vec<Option<String>> as Array<Nullable<Text>>; ",
                " event_filters: Vec<Option<String>> as Array<Nullable<Text>>; ",
                " event_metric_filters: Vec<Option<String>> as Array<Nullable<Text>>; ",
                " event_starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
                " event_ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
            ) AS segment (
                request, customer_key, event_name, aggregation_type, property_name, filters, metric_filters, start_at, end_at
            )
        ),
        own AS (SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id)
        SELECT part.request, sum(part.event_count)::bigint, coalesce(sum(part.sum), 0), max(part.max), min(part.min),
            (array_agg(part.latest ORDER BY part.latest_at DESC, part.latest_id COLLATE \"C\" DESC)
                FILTER (WHERE part.latest_at IS NOT NULL))[1],
            coalesce(sum(part.different), 0)::bigint
        FROM (
            SELECT segment.request, rolled_up.*, NULL::numeric AS latest, NULL::timestamptz AS latest_at,
                NULL::text AS latest_id, NULL::bigint AS different
            FROM own CROSS JOIN bucket_segment segment
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(rollup.event_count), 0)::bigint AS event_count, sum(rollup.sum) AS sum,
                    max(rollup.max) AS max, min(rollup.min) AS min
                FROM usage_rollup rollup
                WHERE rollup.customer_key = segment.customer_key
                    AND rollup.metric_id = segment.metric_id
                    AND rollup.dimensions = segment.dimensions
                    AND rollup.bucket_hours = segment.bucket_hours
                    AND rollup.bucket >= segment.start_at AND rollup.bucket < segment.end_at
                    AND rollup.organization_id = own.organization_id
            ) rolled_up
            UNION ALL
            SELECT segment.request, 0, NULL, NULL, NULL, newest.latest, newest.latest_at, newest.latest_id, NULL
            FROM own CROSS JOIN bucket_segment segment
            CROSS JOIN LATERAL (
                SELECT rollup.latest, rollup.latest_at, rollup.latest_id
                FROM usage_rollup rollup
                WHERE rollup.customer_key = segment.customer_key
                    AND rollup.metric_id = segment.metric_id
                    AND rollup.dimensions = segment.dimensions
                    AND rollup.bucket_hours = segment.bucket_hours
                    AND rollup.bucket >= segment.start_at AND rollup.bucket < segment.end_at
                    AND rollup.organization_id = own.organization_id
                ORDER BY rollup.bucket DESC
                LIMIT 1
            ) newest
            WHERE segment.aggregation_type = 'latest'
            UNION ALL
            SELECT segment.request, raw.*, NULL, NULL, NULL, NULL
            FROM own CROSS JOIN event_segment segment
            CROSS JOIN LATERAL (
                SELECT count(*) FILTER (WHERE segment.property_name IS NULL OR measured.number IS NOT NULL),
                    sum(measured.number), max(measured.number), min(measured.number)
                FROM (
                    SELECT property_number(event.properties, segment.property_name) AS number
                    FROM metered_events(own.organization_id, segment.customer_key, segment.event_name,
                        segment.start_at, segment.end_at, segment.filters, segment.metric_filters) event
                    -- The number is read once.
                    OFFSET 0
                ) measured
            ) raw
            WHERE segment.aggregation_type <> 'unique'
            UNION ALL
            SELECT segment.request, raw.event_count, NULL, NULL, NULL, NULL, NULL, NULL, raw.different
            FROM own CROSS JOIN event_segment segment
            CROSS JOIN LATERAL (
                SELECT count(measured.value) AS event_count, count(DISTINCT measured.value COLLATE \"C\") AS different
                FROM (
                    SELECT property_text(event.properties, segment.property_name) AS value
                    FROM metered_events(own.organization_id, segment.customer_key, segment.event_name,
                        segment.start_at, segment.end_at, segment.filters, segment.metric_filters) event
                    OFFSET 0
                ) measured
            ) raw
            WHERE segment.aggregation_type = 'unique'
            UNION ALL
            SELECT segment.request, 0, NULL, NULL, NULL, newest.number, newest.time_created, newest.idempotency_id, NULL
            FROM own CROSS JOIN event_segment segment
            CROSS JOIN LATERAL (
                SELECT property_number(event.properties, segment.property_name) AS number, event.time_created,
                    event.idempotency_id
                FROM metered_events(own.organization_id, segment.customer_key, segment.event_name,
                    segment.start_at, segment.end_at, segment.filters, segment.metric_filters) event
                WHERE property_number(event.properties, segment.property_name) IS NOT NULL
                ORDER BY event.time_created DESC, event.idempotency_id COLLATE \"C\" DESC
                LIMIT 1
            ) newest
            WHERE segment.aggregation_type = 'latest'
        ) part
        GROUP BY part.request"
    }
}

/// What [`ReadUsage`] answers for a request: its number, events, sum, greatest, least, latest, different texts.
type UsageRow = (i32, i64, BigDecimal, Option<BigDecimal>, Option<BigDecimal>, Option<BigDecimal>, i64);

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

#[derive(Queryable, Selectable)]
#[diesel(table_name = events, check_for_backend(Pg))]
struct EventRow {
    customer_id: String,
    event_name: String,
    idempotency_id: String,
    time_created: OffsetDateTime,
    properties: Value,
}

impl TryFrom<EventRow> for Event {
    type Error = Error;

    fn try_from(row: EventRow) -> Result<Self, Error> {
        let Value::Object(properties) = row.properties else {
            return Err(unreadable("the properties of an event are no object"));
        };
        Ok(Self {
            customer: row.customer_id.parse().map_err(|_| unreadable("a customer id"))?,
            name: row.event_name,
            idempotency_id: row.idempotency_id,
            time_created: row.time_created,
            properties,
        })
    }
}

/// Since when the roll-ups of a metric by a set of properties are complete. That never changes to a later instant, so
/// what is remembered may cost a slower read but never a wrong figure.
#[derive(Default)]
pub(crate) struct Beginnings {
    known: Mutex<HashMap<(Uuid, Vec<String>), OffsetDateTime>>,
}

impl Beginnings {
    fn find(&self, requests: &[UsageRequest]) -> Vec<Option<OffsetDateTime>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().map(|request| known.get(&key_of(request)).copied()).collect()
    }

    fn keep(&self, found: Vec<(Uuid, Vec<String>, OffsetDateTime)>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > BEGINNINGS_MAX {
            known.clear();
        }
        known.extend(found.into_iter().map(|(metric, keys, from)| ((metric, keys), from)));
    }
}

fn key_of(request: &UsageRequest) -> (Uuid, Vec<String>) {
    (request.metric.id.uuid(), request.filters.iter().map(|(name, _)| name.to_owned()).collect())
}

impl ReadUsage {
    fn new(organization: Uuid) -> Self {
        Self {
            bucket_requests: Vec::new(),
            bucket_customers: Vec::new(),
            bucket_metrics: Vec::new(),
            bucket_aggregations: Vec::new(),
            bucket_dimensions: Vec::new(),
            bucket_hours: Vec::new(),
            bucket_starts: Vec::new(),
            bucket_ends: Vec::new(),
            event_requests: Vec::new(),
            event_customers: Vec::new(),
            event_names: Vec::new(),
            event_aggregations: Vec::new(),
            event_properties: Vec::new(),
            event_filters: Vec::new(),
            event_metric_filters: Vec::new(),
            event_starts: Vec::new(),
            event_ends: Vec::new(),
            organization,
        }
    }

    fn add(&mut self, number: i32, request: &UsageRequest, source: Source, part: &Period) -> Result<(), Error> {
        let (metric, aggregation) = (&request.metric, &request.metric.aggregation);
        match source {
            Source::Buckets(hours) => {
                self.bucket_requests.push(number);
                self.bucket_customers.push(request.customer.uuid());
                self.bucket_metrics.push(metric.id.uuid());
                self.bucket_aggregations.push(aggregation.as_str());
                self.bucket_dimensions.push(dimensions_of(&request.filters));
                self.bucket_hours.push(hours);
                self.bucket_starts.push(part.start());
                self.bucket_ends.push(part.end());
            }
            Source::Events => {
                self.event_requests.push(number);
                self.event_customers.push(request.customer.uuid());
                self.event_names.push(metric.event_name.clone());
                self.event_aggregations.push(aggregation.as_str());
                self.event_properties.push(aggregation.property_name().map(str::to_owned));
                let filters = &metric.filters;
                let filters = if filters.is_empty() { None } else { Some(to_json(filters)?.to_string()) };
                self.event_metric_filters.push(filters);
                self.event_filters.push((!request.filters.is_empty()).then(|| request.filters.canonical()));
                self.event_starts.push(part.start());
                self.event_ends.push(part.end());
            }
        }
        Ok(())
    }
}

impl PgTransaction<'_> {
    fn beginnings(&mut self, requests: &[UsageRequest]) -> Result<Vec<Option<OffsetDateTime>>, Error> {
        let beginnings = self.shared.beginnings.find(requests);
        let unknown = requests.iter().zip(&beginnings);
        let unknown = unknown.filter(|(request, known)| known.is_none() && request.metric.aggregation.adds_up());
        let metrics: HashSet<Uuid> = unknown.map(|(request, _)| request.metric.id.uuid()).collect();
        if metrics.is_empty() {
            return Ok(beginnings);
        }
        let statement = ReadBeginnings { organization: self.tenant(), metrics: metrics.into_iter().collect() };
        let found = self.query(|pg| statement.load(pg))?;
        self.shared.beginnings.keep(found);
        Ok(self.shared.beginnings.find(requests))
    }
}

impl EventRepo for PgTransaction<'_> {
    fn usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<Usage>, Error> {
        let mut statement = ReadUsage::new(self.tenant());
        let beginnings = self.beginnings(requests)?;
        for (number, (request, beginning)) in (0..).zip(requests.iter().zip(beginnings)) {
            for (source, part) in split(&request.period, beginning) {
                statement.add(number, request, source, &part)?;
            }
        }
        let mut usages = vec![Usage::zero(); requests.len()];
        if statement.bucket_requests.is_empty() && statement.event_requests.is_empty() {
            return Ok(usages);
        }
        let rows: Vec<UsageRow> = self.query(|pg| statement.load(pg))?;
        for (number, event_count, sum, max, min, latest, distinct) in rows {
            let index = usize::try_from(number).unwrap_or(usize::MAX);
            let (Some(request), Some(usage)) = (requests.get(index), usages.get_mut(index)) else {
                return Err(StoreError::Internal(format!("usage of request {number}")).into());
            };
            let (event_count, distinct) = (count(event_count)?, count(distinct)?);
            *usage = Totals { event_count, sum, max, min, latest, distinct }.usage(&request.metric.aggregation);
        }
        Ok(usages)
    }

    fn list(&mut self, filter: &EventFilter, page: &PageRequest) -> Result<Page<Event>, Error> {
        let after = page.after.as_deref().map(EventCursor::parse).transpose()?;
        let own = events::organization_id.eq(self.tenant()).and(events::customer_key.eq(filter.customer.uuid()));
        let mut query = events::table.filter(own).into_boxed();
        if let Some(name) = &filter.name {
            query = query.filter(events::event_name.eq(name));
        }
        if let Some(id) = &filter.idempotency_id {
            query = query.filter(events::id_hash.eq(id_hash(id)).and(events::idempotency_id.eq(id)));
        }
        if let Some(after) = after {
            // The first condition is for the index.
            query = query.filter(events::time_created.le(after.time_created)).filter(
                events::time_created
                    .lt(after.time_created)
                    .or(sql::<Bool>("idempotency_id COLLATE \"C\" < ").bind::<Text, _>(after.idempotency_id)),
            );
        }
        let query = query
            .order((events::time_created.desc(), sql::<Text>("idempotency_id COLLATE \"C\" DESC")))
            .limit(i64::from(page.limit) + 1)
            .select(EventRow::as_select());
        let mut rows = self.query(|pg| query.load(pg))?;
        let limit = page.limit as usize;
        let is_last = rows.len() <= limit;
        rows.truncate(limit);
        let items = rows.into_iter().map(Event::try_from).collect::<Result<Vec<_>, _>>()?;
        let next = items.last().filter(|_| !is_last).map(|event| EventCursor::of(event).to_text());
        Ok(Page { items, next })
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
