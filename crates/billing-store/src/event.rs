//! Reading usage and events.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use bigdecimal::BigDecimal;
use billing_domain::id::CustomerKey;
use billing_domain::period::Period;
use billing_domain::store::EventRepo;
use billing_domain::usage::{Usage, UsageRequest};
use billing_domain::{Error, StoreError};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Numeric, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::column::count;
use crate::ingest::id_hash;
use crate::partition::{self, Month};
use crate::rollup::{Source, dimensions_of, split};
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
    /// Adds up all parts of all requests in one statement, and so in one snapshot.
    ReadUsage -> (Integer, BigInt, Numeric) {
        "SELECT part.request, sum(part.event_count)::bigint, sum(part.quantity)
        FROM (
            SELECT segment.request, rolled_up.event_count, rolled_up.quantity
            FROM unnest(
                " bucket_requests: Vec<i32> as Array<Integer>; ",
                " bucket_customers: Vec<Uuid> as Array<SqlUuid>; ",
                " bucket_metrics: Vec<Uuid> as Array<SqlUuid>; ",
                " bucket_dimensions: Vec<String> as Array<Text>; ",
                " bucket_hours: Vec<i16> as Array<SmallInt>; ",
                " bucket_starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
                " bucket_ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
            ) AS segment (request, customer_key, metric_id, dimensions, bucket_hours, start_at, end_at)
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(rollup.event_count), 0) AS event_count, coalesce(sum(rollup.quantity), 0) AS quantity
                FROM usage_rollup rollup
                WHERE rollup.customer_key = segment.customer_key
                    AND rollup.metric_id = segment.metric_id
                    AND rollup.dimensions = segment.dimensions
                    AND rollup.bucket_hours = segment.bucket_hours
                    AND rollup.bucket >= segment.start_at AND rollup.bucket < segment.end_at
                    AND rollup.organization_id = " bucket_organization: Uuid as SqlUuid; "
            ) rolled_up
            UNION ALL
            SELECT segment.request, raw.event_count, raw.quantity
            FROM unnest(
                " event_requests: Vec<i32> as Array<Integer>; ",
                " event_customers: Vec<Uuid> as Array<SqlUuid>; ",
                " event_names: Vec<String> as Array<Text>; ",
                " event_properties: Vec<Option<String>> as Array<Nullable<Text>>; ",
                " event_filters: Vec<Option<String>> as Array<Nullable<Text>>; ",
                " event_starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
                " event_ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
            ) AS segment (request, customer_key, event_name, property_name, filters, start_at, end_at)
            CROSS JOIN LATERAL (
                SELECT count(*) AS event_count,
                    CASE WHEN segment.property_name IS NULL THEN count(*)::numeric
                    ELSE coalesce(sum(property_number(event.properties, segment.property_name)), 0) END AS quantity
                FROM events event
                WHERE event.customer_key = segment.customer_key
                    AND event.time_created >= segment.start_at AND event.time_created < segment.end_at
                    AND event.event_name = segment.event_name
                    AND event.organization_id = " event_organization: Uuid as SqlUuid; "
                    AND (
                        segment.filters IS NULL
                        OR NOT EXISTS (
                            SELECT FROM json_each_text(segment.filters::json) filter
                            WHERE property_text(event.properties, filter.key) IS DISTINCT FROM filter.value
                        )
                    )
            ) raw
        ) part
        GROUP BY part.request"
    }
}

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
            bucket_dimensions: Vec::new(),
            bucket_hours: Vec::new(),
            bucket_starts: Vec::new(),
            bucket_ends: Vec::new(),
            bucket_organization: organization,
            event_requests: Vec::new(),
            event_customers: Vec::new(),
            event_names: Vec::new(),
            event_properties: Vec::new(),
            event_filters: Vec::new(),
            event_starts: Vec::new(),
            event_ends: Vec::new(),
            event_organization: organization,
        }
    }

    fn add(&mut self, number: i32, request: &UsageRequest, source: Source, part: &Period) {
        match source {
            Source::Buckets(hours) => {
                self.bucket_requests.push(number);
                self.bucket_customers.push(request.customer.uuid());
                self.bucket_metrics.push(request.metric.id.uuid());
                self.bucket_dimensions.push(dimensions_of(&request.filters));
                self.bucket_hours.push(hours);
                self.bucket_starts.push(part.start());
                self.bucket_ends.push(part.end());
            }
            Source::Events => {
                self.event_requests.push(number);
                self.event_customers.push(request.customer.uuid());
                self.event_names.push(request.metric.event_name.clone());
                self.event_properties.push(request.metric.aggregation.property_name().map(str::to_owned));
                self.event_filters.push((!request.filters.is_empty()).then(|| request.filters.canonical()));
                self.event_starts.push(part.start());
                self.event_ends.push(part.end());
            }
        }
    }
}

impl PgTransaction<'_> {
    fn beginnings(&mut self, requests: &[UsageRequest]) -> Result<Vec<Option<OffsetDateTime>>, Error> {
        let beginnings = self.shared.beginnings.find(requests);
        if beginnings.iter().all(Option::is_some) {
            return Ok(beginnings);
        }
        let metrics: HashSet<Uuid> = requests.iter().map(|request| request.metric.id.uuid()).collect();
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
                statement.add(number, request, source, &part);
            }
        }
        let mut usages = vec![Usage::zero(); requests.len()];
        if statement.bucket_requests.is_empty() && statement.event_requests.is_empty() {
            return Ok(usages);
        }
        let rows: Vec<(i32, i64, BigDecimal)> = self.query(|pg| statement.load(pg))?;
        for (number, event_count, quantity) in rows {
            let usage = usize::try_from(number).ok().and_then(|index| usages.get_mut(index));
            let usage = usage.ok_or_else(|| StoreError::Internal(format!("usage of request {number}")))?;
            *usage = Usage { quantity, event_count: count(event_count)? };
        }
        Ok(usages)
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
