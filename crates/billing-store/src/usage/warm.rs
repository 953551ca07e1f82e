//! Usage up to now at a cost that does not grow with events: whole buckets only, and what is remembered of a ragged start.
//!
//! ```text
//! period            [------------------------------------------)now
//! buckets     ------|      |      |      |      |      |       :      |
//! read as     remembered   [ whole hours and days, the current one too )
//!                                                              [ later )  read from the events, and taken off again
//! ```
//!
//! The start is read from the events by whoever asks in a transaction of its own, and remembered with the number of
//! events in its bucket. Events are never removed, so as long as that number is the same the start is too.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bigdecimal::BigDecimal;
use billing_domain::Error;
use billing_domain::metric::{Aggregation, Measure};
use billing_domain::period::Period;
use billing_domain::usage::{Totals, Usage, UsageRequest};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Numeric, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::column::{count, to_json};
use crate::rollup::{HOUR, OPEN_HOUR, Source, ceiling, dimensions_of, floor, split};
use crate::statement::statement;
use crate::transaction::PgTransaction;

/// Most starts that are remembered.
const STARTS_MAX: usize = 100_000;

statement! {
    /// Totals of segments: buckets, and events of a customer.
    ReadSegments -> (Integer, BigInt, Numeric, Nullable<Numeric>, Nullable<Numeric>) {
        "WITH own AS (SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id)
        SELECT segment.number, rolled_up.*
        FROM own CROSS JOIN unnest(
            " bucket_numbers: Vec<i32> as Array<Integer>; ",
            " bucket_customers: Vec<Uuid> as Array<SqlUuid>; ",
            " bucket_metrics: Vec<Uuid> as Array<SqlUuid>; ",
            " bucket_dimensions: Vec<String> as Array<Text>; ",
            " bucket_hours: Vec<i16> as Array<SmallInt>; ",
            " bucket_starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " bucket_ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
        ) AS segment (number, customer_key, metric_id, dimensions, bucket_hours, start_at, end_at)
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(rollup.event_count), 0)::bigint, coalesce(sum(rollup.sum), 0), max(rollup.max),
                min(rollup.min)
            FROM usage_rollup rollup
            WHERE rollup.customer_key = segment.customer_key
                AND rollup.metric_id = segment.metric_id
                AND rollup.dimensions = segment.dimensions
                AND rollup.bucket_hours = segment.bucket_hours
                AND rollup.bucket >= segment.start_at AND rollup.bucket < segment.end_at
                AND rollup.organization_id = own.organization_id
        ) rolled_up
        UNION ALL
        SELECT segment.number, gained.event_count, gained.sum, gained.max, gained.min
        FROM own CROSS JOIN unnest(
            " open_numbers: Vec<i32> as Array<Integer>; ",
            " open_customers: Vec<Uuid> as Array<SqlUuid>; ",
            " open_metrics: Vec<Uuid> as Array<SqlUuid>; ",
            " open_event_names: Vec<String> as Array<Text>; ",
            " open_dimensions: Vec<String> as Array<Text>; ",
            " open_starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " open_ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
        ) AS segment (number, customer_key, metric_id, event_name, dimensions, start_at, end_at)
        CROSS JOIN LATERAL (
            SELECT open.gains FROM open_hours open
            WHERE open.customer_key = segment.customer_key
                AND open.event_name = segment.event_name
                AND open.dimensions = segment.dimensions
                AND open.hour >= segment.start_at AND open.hour < segment.end_at
                AND open.organization_id = own.organization_id
            -- Each is looked up, however small the table was when this was planned.
            OFFSET 0
        ) open
        CROSS JOIN LATERAL gains_of_hour(open.gains, segment.metric_id) gained
        UNION ALL
        SELECT segment.number, raw.*
        FROM own CROSS JOIN unnest(
            " event_numbers: Vec<i32> as Array<Integer>; ",
            " event_customers: Vec<Uuid> as Array<SqlUuid>; ",
            " event_names: Vec<String> as Array<Text>; ",
            " event_properties: Vec<Option<String>> as Array<Nullable<Text>>; ",
            " event_filters: Vec<Option<String>> as Array<Nullable<Text>>; ",
            " event_metric_filters: Vec<Option<String>> as Array<Nullable<Text>>; ",
            " event_starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " event_ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
        ) AS segment (number, customer_key, event_name, property_name, filters, metric_filters, start_at, end_at)
        CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE segment.property_name IS NULL OR measured.number IS NOT NULL),
                coalesce(sum(measured.number), 0), max(measured.number), min(measured.number)
            FROM (
                SELECT property_number(event.properties, segment.property_name) AS number
                FROM metered_events(own.organization_id, segment.customer_key, segment.event_name,
                    segment.start_at, segment.end_at, segment.filters::json, segment.metric_filters::json) event
                -- The number is read once.
                OFFSET 0
            ) measured
        ) raw"
    }
}

type SegmentRow = (i32, i64, BigDecimal, Option<BigDecimal>, Option<BigDecimal>);

/// What a start belongs to: customer, metric, dimensions, and its first instant.
type StartKey = (Uuid, Uuid, String, OffsetDateTime);

/// The totals of ragged starts, with the number of events that their buckets had then.
#[derive(Default)]
pub(crate) struct RaggedStarts {
    known: Mutex<HashMap<StartKey, (u64, Totals)>>,
}

impl RaggedStarts {
    fn lock(&self) -> MutexGuard<'_, HashMap<StartKey, (u64, Totals)>> {
        // Nobody panics half way through a change in here.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known, if the bucket has as many events as it had then.
    fn find(&self, request: &UsageRequest, bucket_count: u64) -> Option<Totals> {
        let known = self.lock();
        known.get(&key_of(request)).filter(|(then, _)| *then == bucket_count).map(|(_, totals)| totals.clone())
    }

    fn keep(&self, request: &UsageRequest, bucket_count: u64, totals: Totals) {
        let mut known = self.lock();
        if known.len() >= STARTS_MAX {
            known.clear();
        }
        known.insert(key_of(request), (bucket_count, totals));
    }
}

fn key_of(request: &UsageRequest) -> StartKey {
    let dimensions = dimensions_of(&request.filters);
    (request.customer.uuid(), request.metric.id.uuid(), dimensions, request.period.start())
}

/// How a period lies in the buckets.
struct Layout<'r> {
    aggregation: &'r Aggregation,
    /// The bucket that the period starts within, and what of the bucket is in the period.
    start: Option<(Period, Period)>,
    /// Whole hours, the one that the period ends within too.
    whole: Period,
    /// What of that hour lies behind the period.
    later: Option<Period>,
}

impl<'r> Layout<'r> {
    /// None for a metric whose buckets do not add up or tell too little, and for a period within an hour.
    fn of(request: &'r UsageRequest) -> Option<Self> {
        let Measure::Counter(aggregation) = &request.metric.measure else { return None };
        if !aggregation.adds_up() || matches!(aggregation, Aggregation::Latest { .. }) {
            return None;
        }
        let (start, end) = (request.period.start(), request.period.end());
        let (first, last) = (ceiling(start, HOUR)?, ceiling(end, HOUR)?);
        if first > floor(end, HOUR) {
            return None;
        }
        let period = |from, to| Period::new(from, to).ok().filter(|period| !period.is_empty());
        let ragged = period(floor(start, HOUR), first).zip(period(start, first)).filter(|_| start < first);
        Some(Self { aggregation, start: ragged, whole: period(first, last)?, later: period(end, last) })
    }
}

impl ReadSegments {
    fn new(organization: Uuid) -> Self {
        Self {
            organization,
            bucket_numbers: Vec::new(),
            bucket_customers: Vec::new(),
            bucket_metrics: Vec::new(),
            bucket_dimensions: Vec::new(),
            bucket_hours: Vec::new(),
            bucket_starts: Vec::new(),
            bucket_ends: Vec::new(),
            open_numbers: Vec::new(),
            open_customers: Vec::new(),
            open_metrics: Vec::new(),
            open_event_names: Vec::new(),
            open_dimensions: Vec::new(),
            open_starts: Vec::new(),
            open_ends: Vec::new(),
            event_numbers: Vec::new(),
            event_customers: Vec::new(),
            event_names: Vec::new(),
            event_properties: Vec::new(),
            event_filters: Vec::new(),
            event_metric_filters: Vec::new(),
            event_starts: Vec::new(),
            event_ends: Vec::new(),
        }
    }

    /// Adds one hour, open or closed.
    fn add_hour(&mut self, number: i32, request: &UsageRequest, hour: &Period) {
        for hours in [1, OPEN_HOUR] {
            self.add_buckets(number, request, hours, hour);
        }
    }

    fn add_buckets(&mut self, number: i32, request: &UsageRequest, hours: i16, part: &Period) {
        if hours == OPEN_HOUR {
            return self.add_open_hour(number, request, part);
        }
        self.bucket_numbers.push(number);
        self.bucket_customers.push(request.customer.uuid());
        self.bucket_metrics.push(request.metric.id.uuid());
        self.bucket_dimensions.push(dimensions_of(&request.filters));
        self.bucket_hours.push(hours);
        self.bucket_starts.push(part.start());
        self.bucket_ends.push(part.end());
    }

    fn add_open_hour(&mut self, number: i32, request: &UsageRequest, part: &Period) {
        self.open_numbers.push(number);
        self.open_customers.push(request.customer.uuid());
        self.open_metrics.push(request.metric.id.uuid());
        self.open_event_names.push(request.metric.event_name.clone());
        self.open_dimensions.push(dimensions_of(&request.filters));
        self.open_starts.push(part.start());
        self.open_ends.push(part.end());
    }

    fn add_events(
        &mut self,
        number: i32,
        request: &UsageRequest,
        aggregation: &Aggregation,
        part: &Period,
    ) -> Result<(), Error> {
        let filters = &request.metric.filters;
        self.event_numbers.push(number);
        self.event_customers.push(request.customer.uuid());
        self.event_names.push(request.metric.event_name.clone());
        self.event_properties.push(aggregation.property_name().map(str::to_owned));
        self.event_filters.push((!request.filters.is_empty()).then(|| request.filters.canonical()));
        let metric_filters = if filters.is_empty() { None } else { Some(to_json(filters)?.to_string()) };
        self.event_metric_filters.push(metric_filters);
        self.event_starts.push(part.start());
        self.event_ends.push(part.end());
        Ok(())
    }
}

/// The segments of one request, by their numbers.
#[derive(Clone, Copy)]
struct Numbers {
    whole: i32,
    start_bucket: i32,
    /// What of that bucket is in the period.
    start: i32,
    later: i32,
}

impl Numbers {
    fn of(request: i32) -> Self {
        let first = request * 4;
        Self { whole: first, start_bucket: first + 1, start: first + 2, later: first + 3 }
    }
}

impl PgTransaction<'_> {
    /// The usage behind each request, from one snapshot, where buckets and memory are enough to tell it.
    pub(crate) fn read_warm_usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<Option<Usage>>, Error> {
        let beginnings = self.beginnings(requests)?;
        let is_rolled_up = |layout: &Layout<'_>, from: Option<OffsetDateTime>| {
            let first = layout.start.as_ref().map_or(layout.whole.start(), |(bucket, _)| bucket.start());
            from.is_some_and(|from| from <= first)
        };
        let layouts = requests.iter().zip(beginnings);
        let layouts: Vec<Option<Layout<'_>>> =
            layouts.map(|(request, from)| Layout::of(request).filter(|layout| is_rolled_up(layout, from))).collect();
        let mut statement = ReadSegments::new(self.tenant());
        for (number, (request, layout)) in (0..).zip(requests.iter().zip(&layouts)) {
            let (Some(layout), numbers) = (layout, Numbers::of(number)) else { continue };
            for (source, part) in split(&layout.whole, Some(layout.whole.start())) {
                if let Source::Buckets(hours) = source {
                    statement.add_buckets(numbers.whole, request, hours, &part);
                }
            }
            if let Some((bucket, _)) = &layout.start {
                statement.add_hour(numbers.start_bucket, request, bucket);
            }
            if let Some(later) = &layout.later {
                statement.add_events(numbers.later, request, layout.aggregation, later)?;
            }
        }
        let totals = self.read_segments(&statement)?;
        let usage = |(number, (request, layout)): (i32, (&UsageRequest, &Option<Layout<'_>>))| {
            let (layout, numbers) = (layout.as_ref()?, Numbers::of(number));
            let of = |number| totals.get(&number).cloned().unwrap_or_default();
            let mut sum = of(numbers.whole);
            if layout.start.is_some() {
                sum = added(sum, self.shared.ragged.find(request, of(numbers.start_bucket).event_count)?);
            }
            Some(without(sum, &of(numbers.later), layout.aggregation)?.usage(layout.aggregation))
        };
        Ok((0..).zip(requests.iter().zip(&layouts)).map(usage).collect())
    }

    /// Reads those of the ragged starts of these requests from the events that are not known, and remembers them.
    pub(crate) fn warm_up(&mut self, requests: &[UsageRequest]) -> Result<(), Error> {
        let starts = (0..).zip(requests).filter_map(|(number, request)| {
            let Layout { aggregation, start, .. } = Layout::of(request)?;
            Some((Numbers::of(number), request, aggregation, start?))
        });
        let mut starts: Vec<_> = starts.collect();
        let mut buckets = ReadSegments::new(self.tenant());
        for (numbers, request, _, (bucket, _)) in &starts {
            buckets.add_hour(numbers.start_bucket, request, bucket);
        }
        let counts = self.read_segments(&buckets)?;
        let count_in = |totals: &HashMap<i32, Totals>, number| totals.get(&number).map_or(0, |own| own.event_count);
        starts.retain(|(numbers, request, ..)| {
            self.shared.ragged.find(request, count_in(&counts, numbers.start_bucket)).is_none()
        });
        // Counted and read by one statement, so that they belong together.
        let mut both = ReadSegments::new(self.tenant());
        for (numbers, request, aggregation, (bucket, start)) in &starts {
            both.add_hour(numbers.start_bucket, request, bucket);
            both.add_events(numbers.start, request, aggregation, start)?;
        }
        let totals = self.read_segments(&both)?;
        for (numbers, request, ..) in starts {
            let start = totals.get(&numbers.start).cloned().unwrap_or_default();
            self.shared.ragged.keep(request, count_in(&totals, numbers.start_bucket), start);
        }
        Ok(())
    }

    fn read_segments(&mut self, statement: &ReadSegments) -> Result<HashMap<i32, Totals>, Error> {
        let mut totals: HashMap<i32, Totals> = HashMap::new();
        if statement.bucket_numbers.is_empty() && statement.event_numbers.is_empty() {
            return Ok(totals);
        }
        let rows: Vec<SegmentRow> = self.query(|pg| statement.clone().load(pg))?;
        for (number, event_count, sum, max, min) in rows {
            let own = Totals { event_count: count(event_count)?, sum, max, min, ..Totals::default() };
            let so_far = totals.remove(&number).unwrap_or_default();
            totals.insert(number, added(so_far, own));
        }
        Ok(totals)
    }
}

fn added(a: Totals, b: Totals) -> Totals {
    Totals {
        event_count: a.event_count + b.event_count,
        sum: a.sum + b.sum,
        max: a.max.into_iter().chain(b.max).max(),
        min: a.min.into_iter().chain(b.min).min(),
        ..Totals::default()
    }
}

/// `all` without what lies behind the period, where that can be taken off again: a greatest number cannot.
fn without(all: Totals, later: &Totals, aggregation: &Aggregation) -> Option<Totals> {
    let is_extreme = matches!(aggregation, Aggregation::Max { .. } | Aggregation::Min { .. });
    if is_extreme && later.event_count > 0 {
        return None;
    }
    Some(Totals { event_count: all.event_count - later.event_count, sum: all.sum - &later.sum, ..all })
}
