//! The one statement that reads usage of every kind.

use bigdecimal::BigDecimal;
use billing_domain::Error;
use billing_domain::metric::{Aggregation, Gauge, GaugeEventType, Measure, Rate};
use billing_domain::period::{Period, Span, instant};
use billing_domain::usage::UsageRequest;
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Numeric, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::to_json;
use crate::pg::statement::statement;
use crate::rollup::{Source, dimensions_of, split};

/// One row more for each lane that has events, under a number below 0: how far their arrival numbers have come in the snapshot.
pub(super) const LAST_ARRIVALS: &str = "UNION ALL
        SELECT -1 - arrivals.lane, NULL, NULL, arrivals.last_arrival, 0, NULL, NULL, NULL, 0
        FROM tenant JOIN event_arrivals arrivals
            ON arrivals.organization_id = tenant.organization_id AND arrivals.lane = ANY (tenant.lanes)";

/// The lane whose row of [`LAST_ARRIVALS`] has this number.
pub(super) fn lane_of_row(number: i32) -> Option<i32> {
    (number < 0).then_some(-1 - number)
}

statement! {
    /// Reads all parts of all requests in one statement, and so in one snapshot: one row of totals for each request, and
    /// for a gauge one more for each bucket that has events. What most metrics need is one pass over each part; only
    /// different texts and latest numbers take another.
    ///
    /// The row of a rate has its events in the period, and the sum, the greatest and (in the last column) the number of
    /// events of the window that comes to most. `sum` and `count` leave a window as cheaply as they enter it; the
    /// greatest does not, but the greatest of all windows is that of all events since the first of them begins.
    ReadUsage -> (
        Integer, Nullable<Timestamptz>, Nullable<Timestamptz>, BigInt, Numeric, Nullable<Numeric>, Nullable<Numeric>,
        Nullable<Numeric>, BigInt,
    ) {
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
            ) AS segment (
                request, customer_key, metric_id, aggregation_type, event_name, dimensions, bucket_hours, start_at,
                end_at
            )
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
            SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id, " lanes: Vec<i32> as Array<Integer>; "::integer[] AS lanes
        )
        SELECT part.request, NULL::timestamptz AS bucket, NULL::timestamptz AS first_at, sum(part.event_count)::bigint,
            coalesce(sum(part.sum), 0), max(part.max), min(part.min),
            (array_agg(part.latest ORDER BY part.latest_at DESC, part.latest_id COLLATE \"C\" DESC)
                FILTER (WHERE part.latest_at IS NOT NULL))[1],
            coalesce(sum(part.different), 0)::bigint
        FROM (
            SELECT segment.request, rolled_up.*, NULL::numeric AS latest, NULL::timestamptz AS latest_at,
                NULL::text AS latest_id, NULL::bigint AS different
            FROM tenant CROSS JOIN bucket_segment segment
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(rollup.event_count), 0)::bigint AS event_count, sum(rollup.sum) AS sum,
                    max(rollup.max) AS max, min(rollup.min) AS min
                FROM rolled_up_usage(tenant.organization_id, segment.customer_key, segment.metric_id,
                    segment.event_name, segment.dimensions, segment.bucket_hours, segment.start_at, segment.end_at) rollup
            ) rolled_up
            UNION ALL
            SELECT segment.request, 0, NULL, NULL, NULL, newest.latest, newest.latest_at, newest.latest_id, NULL
            FROM tenant CROSS JOIN bucket_segment segment
            CROSS JOIN LATERAL (
                SELECT rollup.latest, rollup.latest_at, rollup.latest_id
                FROM rolled_up_usage(tenant.organization_id, segment.customer_key, segment.metric_id,
                    segment.event_name, segment.dimensions, segment.bucket_hours, segment.start_at, segment.end_at) rollup
                ORDER BY rollup.bucket DESC, rollup.latest_at DESC, rollup.latest_id COLLATE \"C\" DESC
                LIMIT 1
            ) newest
            WHERE segment.aggregation_type = 'latest'
            UNION ALL
            SELECT segment.request, raw.*, NULL, NULL, NULL, NULL
            FROM tenant CROSS JOIN event_segment segment
            CROSS JOIN LATERAL (
                SELECT count(*) FILTER (WHERE segment.property_name IS NULL OR measured.number IS NOT NULL),
                    sum(measured.number), max(measured.number), min(measured.number)
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
            SELECT segment.request, raw.event_count, NULL, NULL, NULL, NULL, NULL, NULL, raw.different
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
            SELECT segment.request, 0, NULL, NULL, NULL, newest.number, newest.time_created, newest.idempotency_id, NULL
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

/// What [`ReadUsage`] answers: the request's number, a bucket and its first event, how many events, their sum, greatest,
/// least and latest, how many different texts.
pub(super) type UsageRow = (
    i32,
    Option<OffsetDateTime>,
    Option<OffsetDateTime>,
    i64,
    BigDecimal,
    Option<BigDecimal>,
    Option<BigDecimal>,
    Option<BigDecimal>,
    i64,
);

/// How events are read.
#[derive(Clone, Copy)]
enum Reading {
    /// Their totals.
    Totals,
    /// Bucket by bucket, each event's number a level.
    Levels(Option<Span>),
    /// Bucket by bucket, each event's number moving a level.
    Moves(Option<Span>),
    /// The window before an event that comes to most.
    Windows(Span),
}

impl Reading {
    fn as_str(self) -> &'static str {
        match self {
            Self::Totals => "totals",
            Self::Levels(_) => "levels",
            Self::Moves(_) => "moves",
            Self::Windows(_) => "windows",
        }
    }

    /// The bucket, as `date_trunc` names it.
    fn bucket(self) -> Option<&'static str> {
        let (Self::Levels(span) | Self::Moves(span)) = self else { return None };
        span.map(|span| match span {
            Span::Second => "second",
            Span::Minute => "minute",
            Span::Hour => "hour",
            Span::Day => "day",
            Span::Month => "month",
            Span::Quarter => "quarter",
            Span::Year => "year",
        })
    }

    /// The length of a window.
    fn window(self) -> Option<&'static str> {
        let Self::Windows(span) = self else { return None };
        Some(match span {
            Span::Second => "1 second",
            Span::Minute => "1 minute",
            Span::Hour => "1 hour",
            Span::Day => "1 day",
            Span::Month => "1 month",
            Span::Quarter => "3 months",
            Span::Year => "1 year",
        })
    }
}

impl ReadUsage {
    pub(super) fn new(organization: Uuid) -> Self {
        Self {
            bucket_requests: Vec::new(),
            bucket_customers: Vec::new(),
            bucket_metrics: Vec::new(),
            bucket_aggregations: Vec::new(),
            bucket_event_names: Vec::new(),
            bucket_dimensions: Vec::new(),
            bucket_hours: Vec::new(),
            bucket_starts: Vec::new(),
            bucket_ends: Vec::new(),
            event_requests: Vec::new(),
            event_readings: Vec::new(),
            event_customers: Vec::new(),
            event_names: Vec::new(),
            event_aggregations: Vec::new(),
            event_properties: Vec::new(),
            event_filters: Vec::new(),
            event_metric_filters: Vec::new(),
            event_starts: Vec::new(),
            event_ends: Vec::new(),
            event_spans: Vec::new(),
            event_windows: Vec::new(),
            organization,
            lanes: Vec::new(),
        }
    }

    /// Adds what the request needs. `beginning`: since when its roll-ups are complete.
    pub(super) fn add(
        &mut self,
        number: i32,
        request: &UsageRequest,
        beginning: Option<OffsetDateTime>,
    ) -> Result<(), Error> {
        match &request.metric.measure {
            Measure::Custom(_) => Ok(()),
            Measure::Counter(aggregation) => self.add_totals(number, request, aggregation, &request.period, beginning),
            Measure::Gauge(gauge) => {
                let Gauge { event_type, proration, .. } = gauge;
                let before = Period::new(instant::FIRST, request.period.start()).unwrap_or(request.period);
                self.add_totals(number, request, &gauge.level(), &before, beginning)?;
                let reading = match event_type {
                    GaugeEventType::Total => Reading::Levels(*proration),
                    GaugeEventType::Delta => Reading::Moves(*proration),
                };
                self.add_events(number, request, &gauge.level(), reading, &request.period)
            }
            Measure::Rate(Rate { aggregation, window }) => {
                self.add_events(number, request, aggregation, Reading::Windows(*window), &request.period)
            }
        }
    }

    /// Adds the events of whole hours in which roll-ups are complete.
    pub(super) fn add_hours(&mut self, number: i32, request: &UsageRequest, hours: &Period) {
        let aggregation = request.metric.measure.aggregation();
        for (source, part) in split(hours, Some(hours.start())) {
            if let Source::Buckets(hours) = source {
                self.add_buckets(number, request, &aggregation, hours, &part);
            }
        }
    }

    /// What `aggregation` needs of `period`, from roll-ups where there are any that tell it.
    fn add_totals(
        &mut self,
        number: i32,
        request: &UsageRequest,
        aggregation: &Aggregation,
        period: &Period,
        beginning: Option<OffsetDateTime>,
    ) -> Result<(), Error> {
        for (source, part) in split(period, beginning.filter(|_| aggregation.adds_up())) {
            match source {
                Source::Buckets(hours) => self.add_buckets(number, request, aggregation, hours, &part),
                Source::Events => self.add_events(number, request, aggregation, Reading::Totals, &part)?,
            }
        }
        Ok(())
    }

    fn add_buckets(
        &mut self,
        number: i32,
        request: &UsageRequest,
        aggregation: &Aggregation,
        hours: i16,
        part: &Period,
    ) {
        self.bucket_requests.push(number);
        self.bucket_customers.push(request.customer.uuid());
        self.bucket_metrics.push(request.metric.id.uuid());
        self.bucket_aggregations.push(aggregation.as_str());
        self.bucket_event_names.push(request.metric.event_name.clone());
        self.bucket_dimensions.push(dimensions_of(&request.filters));
        self.bucket_hours.push(hours);
        self.bucket_starts.push(part.start());
        self.bucket_ends.push(part.end());
    }

    fn add_events(
        &mut self,
        number: i32,
        request: &UsageRequest,
        aggregation: &Aggregation,
        reading: Reading,
        part: &Period,
    ) -> Result<(), Error> {
        let metric = &request.metric;
        self.event_requests.push(number);
        self.event_readings.push(reading.as_str());
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
        self.event_spans.push(reading.bucket());
        self.event_windows.push(reading.window());
        Ok(())
    }
}
