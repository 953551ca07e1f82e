//! Usage that is in whole buckets alone: what most invoices are about, since most periods begin and end on the hour.

use diesel::sql_types::{Array, BigInt, Integer, Nullable, Numeric, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::statement::{LAST_ARRIVALS, ReadUsage};
use crate::pg::statement::statement;

statement! {
    /// The part of [`ReadUsage`] that is about buckets. A plan that has the events in it is set up for every month of them
    /// each time, whether or not any are asked for.
    ReadBuckets -> (
        Integer, Nullable<Timestamptz>, Nullable<Timestamptz>, BigInt, Numeric, Nullable<Numeric>, Nullable<Numeric>,
        Nullable<Numeric>, BigInt,
    ) {
        "WITH segment AS (
            SELECT * FROM unnest(
                " requests: Vec<i32> as Array<Integer>; ",
                " customers: Vec<Uuid> as Array<SqlUuid>; ",
                " metrics: Vec<Uuid> as Array<SqlUuid>; ",
                " aggregations: Vec<&'static str> as Array<Text>; ",
                " event_names: Vec<String> as Array<Text>; ",
                " dimensions: Vec<String> as Array<Text>; ",
                " hours: Vec<i16> as Array<SmallInt>; ",
                " starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
                " ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
            ) AS segment (
                request, customer_key, metric_id, aggregation_type, event_name, dimensions, bucket_hours, start_at,
                end_at
            )
        ),
        tenant AS (
            SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id, " lanes: Vec<i32> as Array<Integer>; "::integer[] AS lanes
        )
        SELECT part.request, NULL::timestamptz, NULL::timestamptz, sum(part.event_count)::bigint,
            coalesce(sum(part.sum), 0), max(part.max), min(part.min),
            (array_agg(part.latest ORDER BY part.latest_at DESC, part.latest_id COLLATE \"C\" DESC)
                FILTER (WHERE part.latest_at IS NOT NULL))[1],
            0::bigint
        FROM (
            SELECT segment.request, rolled_up.*, NULL::numeric AS latest, NULL::timestamptz AS latest_at,
                NULL::text AS latest_id
            FROM tenant CROSS JOIN segment
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(rollup.event_count), 0)::bigint AS event_count, sum(rollup.sum) AS sum,
                    max(rollup.max) AS max, min(rollup.min) AS min
                FROM rolled_up_usage(tenant.organization_id, segment.customer_key, segment.metric_id,
                    segment.event_name, segment.dimensions, segment.bucket_hours, segment.start_at, segment.end_at) rollup
            ) rolled_up
            UNION ALL
            SELECT segment.request, 0, NULL, NULL, NULL, newest.latest, newest.latest_at, newest.latest_id
            FROM tenant CROSS JOIN segment
            CROSS JOIN LATERAL (
                SELECT rollup.latest, rollup.latest_at, rollup.latest_id
                FROM rolled_up_usage(tenant.organization_id, segment.customer_key, segment.metric_id,
                    segment.event_name, segment.dimensions, segment.bucket_hours, segment.start_at, segment.end_at) rollup
                ORDER BY rollup.bucket DESC, rollup.latest_at DESC, rollup.latest_id COLLATE \"C\" DESC
                LIMIT 1
            ) newest
            WHERE segment.aggregation_type = 'latest'
        ) part
        GROUP BY part.request
        " [LAST_ARRIVALS] ""
    }
}

impl From<ReadUsage> for ReadBuckets {
    fn from(all: ReadUsage) -> Self {
        Self {
            requests: all.bucket_requests,
            customers: all.bucket_customers,
            metrics: all.bucket_metrics,
            aggregations: all.bucket_aggregations,
            event_names: all.bucket_event_names,
            dimensions: all.bucket_dimensions,
            hours: all.bucket_hours,
            starts: all.bucket_starts,
            ends: all.bucket_ends,
            organization: all.organization,
            lanes: all.lanes,
        }
    }
}
