//! Parts of periods: whole buckets, hot buckets, and events, of which each is read only where there is such a part.

use billing_domain::Error;
use billing_domain::metric::Aggregation;
use billing_domain::period::Period;
use billing_domain::usage::UsageRequest;
use diesel::sql_types::{Array, Integer, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::totals::{HOT_TALLY, HotTallySql, NAMED_EVENTS, OF_BUCKETS, OF_EVENTS, TotalsSql};
use crate::pg::column::to_json;
use crate::pg::statement::statement;
use crate::rollup::dimensions_of;

statement! {
    /// Totals of segments in buckets, without the hot bucket.
    ReadBucketSegments -> (Integer, TotalsSql) {
        "SELECT segment.number, rolled_up.*
        FROM unnest(
            " numbers: Vec<i32> as Array<Integer>; ",
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " metrics: Vec<Uuid> as Array<SqlUuid>; ",
            " dimensions: Vec<String> as Array<Text>; ",
            " bucket_hours: Vec<i16> as Array<SmallInt>; ",
            " starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
        ) AS segment (number, customer_key, metric_id, dimensions, bucket_hours, start_at, end_at)
        CROSS JOIN LATERAL (
            SELECT " [OF_BUCKETS] "
            FROM usage_rollup rollup
            WHERE rollup.customer_key = segment.customer_key
                AND rollup.metric_id = segment.metric_id
                AND rollup.dimensions = segment.dimensions
                AND rollup.bucket_hours = segment.bucket_hours
                AND rollup.bucket >= segment.start_at AND rollup.bucket < segment.end_at
                AND rollup.organization_id = " organization: Uuid as SqlUuid; "
        ) rolled_up"
    }
}

statement! {
    /// The hot buckets that have anything of a metric, and what.
    ReadHotBuckets -> (Integer, HotTallySql) {
        "SELECT asked.number, tally.*
        FROM (SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id) input
        CROSS JOIN unnest(
            " numbers: Vec<i32> as Array<Integer>; ",
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " metrics: Vec<Uuid> as Array<SqlUuid>; ",
            " event_names: Vec<String> as Array<Text>; ",
            " dimensions: Vec<String> as Array<Text>; "
        ) AS asked (number, customer_key, metric_id, event_name, dimensions)
        CROSS JOIN LATERAL " [HOT_TALLY] " tally"
    }
}

statement! {
    /// Totals of segments, read from the events.
    ReadEventSegments -> (Integer, TotalsSql) {
        "WITH tenant AS (SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id, " [NAMED_EVENTS] ")
        SELECT segment.number, raw.*
        FROM tenant CROSS JOIN unnest(
            " numbers: Vec<i32> as Array<Integer>; ",
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " names: Vec<String> as Array<Text>; ",
            " properties: Vec<Option<String>> as Array<Nullable<Text>>; ",
            " filters: Vec<Option<String>> as Array<Nullable<Text>>; ",
            " metric_filters: Vec<Option<String>> as Array<Nullable<Text>>; ",
            " starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
        ) AS segment (number, customer_key, event_name, property_name, filters, metric_filters, start_at, end_at)
        CROSS JOIN LATERAL (
            SELECT " [OF_EVENTS] "
            FROM (
                SELECT property_number(event.properties, segment.property_name) AS number
                FROM metered_events(tenant.organization_id, segment.customer_key, segment.event_name,
                    segment.start_at, segment.end_at, segment.filters::json, segment.metric_filters::json) event
                -- The number is read once.
                OFFSET 0
            ) measured
        ) raw"
    }
}

impl ReadBucketSegments {
    pub(super) fn new(organization: Uuid) -> Self {
        Self {
            organization,
            numbers: Vec::new(),
            customers: Vec::new(),
            metrics: Vec::new(),
            dimensions: Vec::new(),
            bucket_hours: Vec::new(),
            starts: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Adds the buckets of so many hours within `part`.
    pub(super) fn add(&mut self, number: i32, request: &UsageRequest, bucket_hours: i16, part: &Period) {
        self.numbers.push(number);
        self.customers.push(request.customer.uuid());
        self.metrics.push(request.metric.id.uuid());
        self.dimensions.push(dimensions_of(&request.filters));
        self.bucket_hours.push(bucket_hours);
        self.starts.push(part.start());
        self.ends.push(part.end());
    }
}

impl ReadHotBuckets {
    pub(super) fn new(organization: Uuid) -> Self {
        Self {
            organization,
            numbers: Vec::new(),
            customers: Vec::new(),
            metrics: Vec::new(),
            event_names: Vec::new(),
            dimensions: Vec::new(),
        }
    }

    /// Adds the hot bucket that counts what is asked for.
    pub(super) fn add(&mut self, number: i32, request: &UsageRequest) {
        self.numbers.push(number);
        self.customers.push(request.customer.uuid());
        self.metrics.push(request.metric.id.uuid());
        self.event_names.push(request.metric.event_name.clone());
        self.dimensions.push(dimensions_of(&request.filters));
    }
}

impl ReadEventSegments {
    pub(super) fn new(organization: Uuid) -> Self {
        Self {
            organization,
            numbers: Vec::new(),
            customers: Vec::new(),
            names: Vec::new(),
            properties: Vec::new(),
            filters: Vec::new(),
            metric_filters: Vec::new(),
            starts: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Adds the events within `part`.
    pub(super) fn add(
        &mut self,
        number: i32,
        request: &UsageRequest,
        aggregation: &Aggregation,
        part: &Period,
    ) -> Result<(), Error> {
        let filters = &request.metric.filters;
        self.numbers.push(number);
        self.customers.push(request.customer.uuid());
        self.names.push(request.metric.event_name.clone());
        self.properties.push(aggregation.property_name().map(str::to_owned));
        self.filters.push((!request.filters.is_empty()).then(|| request.filters.canonical()));
        self.metric_filters.push(if filters.is_empty() { None } else { Some(to_json(filters)?.to_string()) });
        self.starts.push(part.start());
        self.ends.push(part.end());
        Ok(())
    }
}
