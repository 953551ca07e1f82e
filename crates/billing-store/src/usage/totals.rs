//! What events come to: the columns that statements select, and the rows they answer. Whoever adds a figure to roll-ups reads it
//! here and nowhere else.

use bigdecimal::BigDecimal;
use billing_domain::Error;
use billing_domain::metric::Aggregation;
use billing_domain::metric::Totals;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Numeric, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::count;
use crate::pg::statement::statement;

/// The totals of the buckets `rollup`, added up.
macro_rules! of_buckets {
    () => {
        "coalesce(sum(rollup.event_count), 0)::bigint AS event_count, coalesce(sum(rollup.sum), 0) AS sum,
                    max(rollup.max) AS max, min(rollup.min) AS min"
    };
}

/// The figures of no number at all.
macro_rules! no_figures {
    () => {
        "0 AS sum, NULL AS max, NULL AS min"
    };
}

/// The totals of the buckets `rollup`, added up.
pub(super) const OF_BUCKETS: &str = of_buckets!();
/// The figures of no number at all.
const NO_FIGURES: &str = no_figures!();

/// The totals of events, of which `measured.number` is each one's number for `segment`.
pub(super) const OF_EVENTS: &str =
    "count(*) FILTER (WHERE segment.property_name IS NULL OR measured.number IS NOT NULL) AS event_count,
                    coalesce(sum(measured.number), 0) AS sum, max(measured.number) AS max, min(measured.number) AS min";

/// The totals of the parts of a request, added up: the columns of a [`UsageRow`] from `event_count` on.
const OF_PARTS: &str =
    "sum(part.event_count)::bigint AS event_count, coalesce(sum(part.sum), 0) AS sum, max(part.max) AS max,
            min(part.min) AS min,
            (array_agg(part.latest ORDER BY part.latest_at DESC, part.latest_id COLLATE \"C\" DESC)
                FILTER (WHERE part.latest_at IS NOT NULL))[1] AS latest,
            coalesce(sum(part.different), 0)::bigint AS different";

/// The table of events, named in a statement that has it only by `metered_events`. A month may be made while the statement is being
/// planned, and is not in that plan; Postgres makes another one then if the statement itself names the table, but not if only a
/// function does that was put in its place: those who plan once for a connection would never see the month.
pub(super) const NAMED_EVENTS: &str = "'events'::regclass AS events";

/// The columns of a segment that is read from buckets.
const BUCKET_SEGMENT: &str =
    "request, customer_key, metric_id, aggregation_type, event_name, dimensions, bucket_hours, start_at, end_at";

/// The parts of requests that are in buckets, those of `bucket_segment`.
const BUCKET_PARTS: &str = concat!(
    "SELECT segment.request, rolled_up.*, NULL::numeric AS latest, NULL::timestamptz AS latest_at,
                NULL::text AS latest_id, NULL::bigint AS different
            FROM tenant CROSS JOIN bucket_segment segment
            CROSS JOIN LATERAL (
                SELECT ",
    of_buckets!(),
    "
                FROM rolled_up_usage(tenant.organization_id, segment.customer_key, segment.metric_id,
                    segment.event_name, segment.dimensions, segment.bucket_hours, segment.start_at, segment.end_at) rollup
            ) rolled_up
            UNION ALL
            SELECT segment.request, 0, ",
    no_figures!(),
    ", newest.latest, newest.latest_at, newest.latest_id, NULL
            FROM tenant CROSS JOIN bucket_segment segment
            CROSS JOIN LATERAL (
                SELECT rollup.latest, rollup.latest_at, rollup.latest_id
                FROM rolled_up_usage(tenant.organization_id, segment.customer_key, segment.metric_id,
                    segment.event_name, segment.dimensions, segment.bucket_hours, segment.start_at, segment.end_at) rollup
                ORDER BY rollup.bucket DESC, rollup.latest_at DESC, rollup.latest_id COLLATE \"C\" DESC
                LIMIT 1
            ) newest
            WHERE segment.aggregation_type = 'latest'"
);

/// One row more for each key range that has events, under a number below 0: how far their arrival numbers have come in the snapshot,
/// and the number of the last correction, in the place of different texts.
pub(super) const LAST_ARRIVALS: &str = "UNION ALL
        SELECT -1 - arrivals.key_range, NULL, NULL, arrivals.last_arrival, 0, NULL, NULL, NULL, arrivals.last_correction
        FROM tenant JOIN event_arrivals arrivals
            ON arrivals.organization_id = tenant.organization_id AND arrivals.key_range = ANY (tenant.key_ranges)";

/// The key range whose row of [`LAST_ARRIVALS`] has this number.
pub(super) fn key_range_of_row(number: i32) -> Option<i32> {
    (number < 0).then_some(-1 - number)
}

/// The columns of a [`TotalsRow`].
pub(super) type TotalsSql = (BigInt, Numeric, Nullable<Numeric>, Nullable<Numeric>);

/// What buckets or events come to.
#[derive(Queryable)]
pub(crate) struct TotalsRow {
    event_count: i64,
    sum: BigDecimal,
    max: Option<BigDecimal>,
    min: Option<BigDecimal>,
}

impl TryFrom<TotalsRow> for Totals {
    type Error = Error;

    fn try_from(row: TotalsRow) -> Result<Self, Error> {
        let TotalsRow { event_count, sum, max, min } = row;
        Ok(Self { event_count: count(event_count)?, sum, max, min, ..Self::default() })
    }
}

/// Both together.
pub(super) fn added(a: Totals, b: Totals) -> Totals {
    Totals {
        event_count: a.event_count + b.event_count,
        sum: a.sum + b.sum,
        max: a.max.into_iter().chain(b.max).max(),
        min: a.min.into_iter().chain(b.min).min(),
        ..Totals::default()
    }
}

/// `all` without what lies behind the period, where that can be taken off again: a greatest number cannot.
pub(super) fn without(all: Totals, later: &Totals, aggregation: &Aggregation) -> Option<Totals> {
    let is_extreme = matches!(aggregation, Aggregation::Max { .. } | Aggregation::Min { .. });
    if is_extreme && later.event_count > 0 {
        return None;
    }
    Some(Totals { event_count: all.event_count - later.event_count, sum: all.sum - &later.sum, ..all })
}

/// The columns of [`HOT_TALLY`]: the hour of the hot bucket, and what it has.
pub(crate) type HotTallySql = (Timestamptz, TotalsSql);

/// What the hot bucket has of the metric `asked.metric_id`, of `input.organization_id`; no row where it has nothing.
pub(crate) const HOT_TALLY: &str = "(
    SELECT open.hour, gained.event_count, gained.sum, gained.max, gained.min
    FROM (
        SELECT open.hour, open.deltas FROM hot_buckets open
        WHERE open.customer_key = asked.customer_key
            AND open.event_name = asked.event_name
            AND open.dimensions = asked.dimensions
            AND open.organization_id = input.organization_id
        -- Each is looked up, however small the table was when this was planned.
        OFFSET 0
    ) open
    CROSS JOIN LATERAL deltas_of_hour(open.deltas, asked.metric_id) gained
)";

/// The columns of a [`UsageRow`].
pub(super) type UsageSql = (
    Integer,
    Nullable<Timestamptz>,
    Nullable<Timestamptz>,
    BigInt,
    Numeric,
    Nullable<Numeric>,
    Nullable<Numeric>,
    Nullable<Numeric>,
    BigInt,
);

/// What a request comes to, or one bucket of a gauge.
#[derive(Queryable)]
pub(super) struct UsageRow {
    /// The request's number.
    pub(super) request: i32,
    /// Of a gauge: the bucket's first instant, and its first event.
    pub(super) bucket: Option<OffsetDateTime>,
    pub(super) first_at: Option<OffsetDateTime>,
    pub(super) event_count: i64,
    sum: BigDecimal,
    pub(super) max: Option<BigDecimal>,
    min: Option<BigDecimal>,
    pub(super) latest: Option<BigDecimal>,
    /// How many different texts.
    pub(super) distinct: i64,
}

impl TryFrom<UsageRow> for Totals {
    type Error = Error;

    fn try_from(row: UsageRow) -> Result<Self, Error> {
        let UsageRow { event_count, sum, max, min, latest, distinct, .. } = row;
        Ok(Self { event_count: count(event_count)?, sum, max, min, latest, distinct: count(distinct)? })
    }
}

statement! {
    /// Reads all parts of all requests in one statement, and so in one snapshot: one row of totals for each request, and
    /// for a gauge one more for each bucket that has events. What most metrics need is one pass over each part; only
    /// different texts and latest numbers take another.
    ///
    /// The row of a rate has its events in the period, and the sum, the greatest and (in the last column) the number of
    /// events of the window that comes to most. `sum` and `count` leave a window as cheaply as they enter it; the
    /// greatest does not, but the greatest of all windows is that of all events since the first of them begins.
    ReadUsage -> UsageSql {
        "WITH bucket_segment AS (
            SELECT * FROM unnest(
                " bucket_requests: Vec<i32> as Array<Integer>; ",
                " bucket_customers: Vec<Uuid> as Array<SqlUuid>; ",
                " bucket_metrics: Vec<Uuid> as Array<SqlUuid>; ",
                " bucket_aggregations: Vec<&'static str> as Array<Text>; ",
                " bucket_event_names: Vec<String> as Array<Text>; ",
                " bucket_dimensions: Vec<String> as Array<Text>; ",
                " bucket_hours: Vec<i16> as Array<SmallInt>; ",
                " bucket_starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
                " bucket_ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
            ) AS segment (" [BUCKET_SEGMENT] ")
        ),
        event_segment AS (
            SELECT request, reading, customer_key, event_name, aggregation_type, property_name, filters::json AS filters,
                metric_filters::json AS metric_filters, start_at, end_at, span, window_length::interval AS window_length
            FROM unnest(
                " event_requests: Vec<i32> as Array<Integer>; ",
                " event_readings: Vec<&'static str> as Array<Text>; ",
                " event_customers: Vec<Uuid> as Array<SqlUuid>; ",
                " event_names: Vec<String> as Array<Text>; ",
                " event_aggregations: Vec<&'static str> as Array<Text>; ",
                " event_properties: Vec<Option<String>> as Array<Nullable<Text>>; ",
                " event_filters: Vec<Option<String>> as Array<Nullable<Text>>; ",
                " event_metric_filters: Vec<Option<String>> as Array<Nullable<Text>>; ",
                " event_starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
                " event_ends: Vec<OffsetDateTime> as Array<Timestamptz>; ",
                " event_spans: Vec<Option<&'static str>> as Array<Nullable<Text>>; ",
                " event_windows: Vec<Option<&'static str>> as Array<Nullable<Text>>; "
            ) AS segment (
                request, reading, customer_key, event_name, aggregation_type, property_name, filters, metric_filters,
                start_at, end_at, span, window_length
            )
        ),
        tenant AS (
            SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id, " key_ranges: Vec<i32> as Array<Integer>; "::integer[] AS key_ranges, " [NAMED_EVENTS] "
        )
        SELECT part.request, NULL::timestamptz AS bucket, NULL::timestamptz AS first_at, " [OF_PARTS] "
        FROM (
            " [BUCKET_PARTS] "
            UNION ALL
            SELECT segment.request, raw.*, NULL, NULL, NULL, NULL
            FROM tenant CROSS JOIN event_segment segment
            CROSS JOIN LATERAL (
                SELECT " [OF_EVENTS] "
                FROM (
                    SELECT property_number(event.properties, segment.property_name) AS number
                    FROM metered_events(tenant.organization_id, segment.customer_key, segment.event_name,
                        segment.start_at, segment.end_at, segment.filters, segment.metric_filters) event
                    -- The number is read once.
                    OFFSET 0
                ) measured
            ) raw
            WHERE segment.reading = 'totals' AND segment.aggregation_type <> 'unique'
            UNION ALL
            SELECT segment.request, raw.event_count, " [NO_FIGURES] ", NULL, NULL, NULL, raw.different
            FROM tenant CROSS JOIN event_segment segment
            CROSS JOIN LATERAL (
                SELECT count(measured.value) AS event_count, count(DISTINCT measured.value COLLATE \"C\") AS different
                FROM (
                    SELECT property_text(event.properties, segment.property_name) AS value
                    FROM metered_events(tenant.organization_id, segment.customer_key, segment.event_name,
                        segment.start_at, segment.end_at, segment.filters, segment.metric_filters) event
                    OFFSET 0
                ) measured
            ) raw
            WHERE segment.reading = 'totals' AND segment.aggregation_type = 'unique'
            UNION ALL
            SELECT segment.request, 0, " [NO_FIGURES] ", newest.number, newest.time_created, newest.idempotency_id, NULL
            FROM tenant CROSS JOIN event_segment segment
            CROSS JOIN LATERAL (
                SELECT property_number(event.properties, segment.property_name) AS number, event.time_created,
                    event.idempotency_id
                FROM metered_events(tenant.organization_id, segment.customer_key, segment.event_name,
                    segment.start_at, segment.end_at, segment.filters, segment.metric_filters) event
                WHERE property_number(event.properties, segment.property_name) IS NOT NULL
                ORDER BY event.time_created DESC, event.idempotency_id COLLATE \"C\" DESC
                LIMIT 1
            ) newest
            WHERE segment.reading = 'totals' AND segment.aggregation_type = 'latest'
        ) part
        GROUP BY part.request
        UNION ALL
        SELECT segment.request, step.bucket, step.first_at, step.event_count, 0, step.greatest, NULL, step.last, 0
        FROM tenant CROSS JOIN event_segment segment
        CROSS JOIN LATERAL (
            SELECT leveled.bucket, min(leveled.time_created) AS first_at, count(*) AS event_count,
                max(leveled.level) AS greatest, max(leveled.level) FILTER (WHERE leveled.is_last) AS last
            FROM (
                SELECT bucketed.time_created, bucketed.bucket,
                    CASE segment.reading WHEN 'moves' THEN sum(bucketed.number) OVER (in_order ROWS UNBOUNDED PRECEDING)
                        ELSE bucketed.number END AS level,
                    lead(bucketed.bucket) OVER in_order IS DISTINCT FROM bucketed.bucket AS is_last
                FROM (
                    SELECT measured.*,
                        coalesce(date_trunc(segment.span, measured.time_created, 'UTC'), segment.start_at) AS bucket
                    FROM (
                        SELECT property_number(event.properties, segment.property_name) AS number, event.time_created,
                            event.idempotency_id
                        FROM metered_events(tenant.organization_id, segment.customer_key, segment.event_name,
                            segment.start_at, segment.end_at, segment.filters, segment.metric_filters) event
                        OFFSET 0
                    ) measured
                    WHERE measured.number IS NOT NULL
                ) bucketed
                WINDOW in_order AS (ORDER BY bucketed.time_created, bucketed.idempotency_id COLLATE \"C\")
            ) leveled
            GROUP BY leveled.bucket
        ) step
        WHERE segment.reading IN ('levels', 'moves')
        UNION ALL
        SELECT segment.request, NULL, NULL, busiest.event_count, coalesce(busiest.sum, 0), NULL, NULL, NULL,
            busiest.window_count
        FROM tenant CROSS JOIN event_segment segment
        CROSS JOIN LATERAL (
            SELECT count(*) OVER () AS event_count, window_end.sum, window_end.window_count
            FROM (
                SELECT measured.time_created, count(*) OVER sliding AS window_count,
                    sum(measured.number) OVER sliding AS sum
                FROM (
                    SELECT property_number(event.properties, segment.property_name) AS number, event.time_created
                    FROM metered_events(tenant.organization_id, segment.customer_key, segment.event_name,
                        (segment.start_at AT TIME ZONE 'UTC' - segment.window_length) AT TIME ZONE 'UTC',
                        segment.end_at, segment.filters, segment.metric_filters) event
                    OFFSET 0
                ) measured
                WHERE segment.property_name IS NULL OR measured.number IS NOT NULL
                WINDOW sliding AS (
                    ORDER BY measured.time_created AT TIME ZONE 'UTC'
                    RANGE BETWEEN segment.window_length PRECEDING AND CURRENT ROW
                )
            ) window_end
            WHERE window_end.time_created >= segment.start_at
            -- An average to more digits than it is answered with.
            ORDER BY CASE segment.aggregation_type
                WHEN 'count' THEN window_end.window_count
                WHEN 'sum' THEN window_end.sum
                ELSE round(window_end.sum, 120) / window_end.window_count
            END DESC
            LIMIT 1
        ) busiest
        WHERE segment.reading = 'windows' AND segment.aggregation_type <> 'max'
        UNION ALL
        SELECT segment.request, NULL, NULL, busiest.event_count, 0, busiest.greatest, NULL, NULL, 0
        FROM tenant CROSS JOIN event_segment segment
        CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE measured.time_created >= segment.start_at) AS event_count,
                max(measured.number) FILTER (WHERE measured.time_created >= measured.first_start) AS greatest
            FROM (
                SELECT numbers.*,
                    (
                        min(numbers.time_created) FILTER (WHERE numbers.time_created >= segment.start_at) OVER ()
                        AT TIME ZONE 'UTC' - segment.window_length
                    ) AT TIME ZONE 'UTC' AS first_start
                FROM (
                    SELECT property_number(event.properties, segment.property_name) AS number, event.time_created
                    FROM metered_events(tenant.organization_id, segment.customer_key, segment.event_name,
                        (segment.start_at AT TIME ZONE 'UTC' - segment.window_length) AT TIME ZONE 'UTC',
                        segment.end_at, segment.filters, segment.metric_filters) event
                    OFFSET 0
                ) numbers
                WHERE numbers.number IS NOT NULL
            ) measured
        ) busiest
        WHERE segment.reading = 'windows' AND segment.aggregation_type = 'max'
        " [LAST_ARRIVALS] " ORDER BY 1, 2 NULLS FIRST"
    }
}

statement! {
    /// The part of [`ReadUsage`] that is about buckets. A plan that has the events in it is set up for every month of them
    /// each time, whether or not any are asked for.
    ReadBuckets -> UsageSql {
        "WITH bucket_segment AS (
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
            ) AS segment (" [BUCKET_SEGMENT] ")
        ),
        tenant AS (
            SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id, " key_ranges: Vec<i32> as Array<Integer>; "::integer[] AS key_ranges
        )
        SELECT part.request, NULL::timestamptz, NULL::timestamptz, " [OF_PARTS] "
        FROM (
            " [BUCKET_PARTS] "
        ) part
        GROUP BY part.request
        " [LAST_ARRIVALS] ""
    }
}
