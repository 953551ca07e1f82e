-- The totals by hour and day, counted again from the events, for metrics without filters whose buckets add up.
WITH rolled AS (
    SELECT metric.organization_id, metric.id AS metric_id, metric.event_name, metric.aggregation_type, metric.property_name,
        kept.rolled_up_from
    FROM metric_rollups kept
    JOIN metrics metric ON metric.organization_id = kept.organization_id AND metric.id = kept.metric_id
    WHERE kept.filter_keys = '{}' AND metric.metric_type = 'counter' AND metric.filters IS NULL
        AND metric.aggregation_type IN ('count', 'sum', 'max', 'min', 'average')
),
measured AS (
    SELECT rolled.metric_id, rolled.property_name, rolled.aggregation_type, rolled.rolled_up_from, event.customer_key,
        event.time_created AT TIME ZONE 'UTC' AS at,
        CASE
            WHEN json_typeof(event.properties -> rolled.property_name) IN ('number', 'string')
                AND octet_length(event.properties ->> rolled.property_name) <= 60
                AND event.properties ->> rolled.property_name
                    ~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0*([0-2]?[0-9]|30))?$'
            THEN (event.properties ->> rolled.property_name)::numeric
        END AS number
    FROM rolled
    JOIN events event ON event.organization_id = rolled.organization_id AND event.event_name = rolled.event_name
),
counted AS (
    SELECT customer_key, metric_id, width.hours AS bucket_hours, width.bucket, count(*) AS event_count,
        CASE WHEN aggregation_type IN ('sum', 'average') THEN coalesce(sum(number), 0) ELSE 0 END AS sum
    FROM measured
    CROSS JOIN LATERAL (
        VALUES (1::smallint, date_trunc('hour', at) AT TIME ZONE 'UTC'), (24::smallint, date_trunc('day', at) AT TIME ZONE 'UTC')
    ) AS width (hours, bucket)
    WHERE (property_name IS NULL OR number IS NOT NULL) AND width.bucket >= rolled_up_from
    GROUP BY customer_key, metric_id, aggregation_type, width.hours, width.bucket
),
kept AS (
    SELECT rollup.customer_key, rollup.metric_id, rollup.bucket_hours, rollup.bucket, rollup.event_count,
        CASE WHEN rolled.aggregation_type IN ('sum', 'average') THEN rollup.sum ELSE 0 END AS sum
    FROM usage_rollup rollup
    JOIN rolled USING (organization_id, metric_id)
    WHERE rollup.dimensions = '' AND rollup.bucket >= rolled.rolled_up_from AND rollup.event_count > 0
)
SELECT customer_key::text AS subject,
    format('metric %s, %s hours from %s: rolled up are %s events adding up to %s, stored are %s adding up to %s', metric_id, bucket_hours,
        bucket, coalesce(kept.event_count, 0), coalesce(kept.sum, 0), coalesce(counted.event_count, 0), coalesce(counted.sum, 0)) AS problem
FROM counted
FULL JOIN kept USING (customer_key, metric_id, bucket_hours, bucket)
WHERE kept.event_count IS DISTINCT FROM counted.event_count OR kept.sum IS DISTINCT FROM counted.sum
