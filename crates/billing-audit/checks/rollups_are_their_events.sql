-- Hours and days, counted again from the events: totals, and for each set of properties that filters name the rows of
-- their values. Counters and rates of every kind, filtered ones too; of different texts only how many events have one. An hour that is open counts with the others.
WITH rolled AS (
    SELECT metric.organization_id, metric.id AS metric_id, metric.event_name, metric.aggregation_type, metric.property_name,
        metric.filters, kept.filter_keys, kept.rolled_up_from
    FROM metric_rollups kept
    JOIN metrics metric ON metric.organization_id = kept.organization_id AND metric.id = kept.metric_id
    WHERE metric.metric_type IN ('counter', 'rate')
),
measured AS (
    SELECT rolled.metric_id, rolled.property_name, rolled.aggregation_type, rolled.rolled_up_from, event.customer_key,
        event.time_created, event.idempotency_id, event.time_created AT TIME ZONE 'UTC' AS at, dimension.dimensions,
        CASE
            WHEN json_typeof(event.properties -> rolled.property_name) IN ('number', 'string')
                AND octet_length(event.properties ->> rolled.property_name) <= 60
                AND event.properties ->> rolled.property_name
                    ~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0*([0-2]?[0-9]|30))?$'
            THEN (event.properties ->> rolled.property_name)::numeric
        END AS number,
        json_typeof(event.properties -> rolled.property_name) IN ('string', 'boolean', 'number') AS has_text
    FROM rolled
    JOIN events event ON event.organization_id = rolled.organization_id AND event.event_name = rolled.event_name
        AND event.correction < 2
    CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_object_agg(key, CASE
            WHEN json_typeof(event.properties -> key) = 'number' AND octet_length(event.properties ->> key) <= 60
                AND event.properties ->> key ~ '^-?[0-9]+(\.[0-9]+)?([eE][+-]?0*([0-2]?[0-9]|30))?$'
            THEN (event.properties ->> key)::numeric::text
            WHEN json_typeof(event.properties -> key) IN ('string', 'boolean', 'number') THEN event.properties ->> key
        END), '{}') AS dimensions
        FROM unnest(rolled.filter_keys) key
    ) dimension
    WHERE NOT jsonb_path_exists(dimension.dimensions, '$.* ? (@ == null)')
        AND NOT EXISTS (
            SELECT FROM jsonb_array_elements(coalesce(rolled.filters -> 'numeric_filters', '[]')) wanted
            CROSS JOIN LATERAL (
                SELECT CASE
                    WHEN json_typeof(event.properties -> (wanted ->> 'property_name')) IN ('number', 'string')
                        AND octet_length(event.properties ->> (wanted ->> 'property_name')) <= 60
                        AND event.properties ->> (wanted ->> 'property_name')
                            ~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0*([0-2]?[0-9]|30))?$'
                    THEN (event.properties ->> (wanted ->> 'property_name'))::numeric - (wanted ->> 'comparison_value')::numeric
                END AS distance
            ) compared
            WHERE NOT coalesce(CASE wanted ->> 'operator'
                WHEN 'gte' THEN compared.distance >= 0
                WHEN 'gt' THEN compared.distance > 0
                WHEN 'eq' THEN compared.distance = 0
                WHEN 'lt' THEN compared.distance < 0
                WHEN 'lte' THEN compared.distance <= 0
            END, false)
        )
        AND NOT EXISTS (
            SELECT FROM jsonb_array_elements(coalesce(rolled.filters -> 'categorical_filters', '[]')) wanted
            WHERE (wanted ->> 'operator' = 'isnotin') = coalesce(CASE
                WHEN json_typeof(event.properties -> (wanted ->> 'property_name')) IN ('string', 'boolean', 'number')
                THEN wanted -> 'comparison_value' @> to_jsonb(event.properties ->> (wanted ->> 'property_name'))
            END, false)
        )
),
counted AS (
    SELECT customer_key, metric_id, dimensions, width.hours AS bucket_hours, width.bucket, count(*) AS event_count,
        CASE
            WHEN aggregation_type IN ('sum', 'average') THEN coalesce(sum(number), 0)
            WHEN aggregation_type = 'max' THEN max(number)
            WHEN aggregation_type = 'min' THEN min(number)
            WHEN aggregation_type = 'latest'
            THEN (array_agg(number ORDER BY time_created DESC, idempotency_id COLLATE "C" DESC))[1]
            WHEN aggregation_type NOT IN ('count', 'unique') THEN format('an unknown aggregation: %s', aggregation_type)::numeric
        END AS figure
    FROM measured
    CROSS JOIN LATERAL (
        VALUES (1::smallint, date_trunc('hour', at) AT TIME ZONE 'UTC'), (24::smallint, date_trunc('day', at) AT TIME ZONE 'UTC')
    ) AS width (hours, bucket)
    WHERE (property_name IS NULL OR CASE aggregation_type WHEN 'unique' THEN has_text ELSE number IS NOT NULL END) AND width.bucket >= rolled_up_from
    GROUP BY customer_key, metric_id, dimensions, aggregation_type, width.hours, width.bucket
),
kept AS (
    SELECT counted.customer_key, counted.metric_id, parsed.dimensions, counted.bucket_hours, counted.bucket,
        sum(counted.event_count) AS event_count,
        CASE
            WHEN rolled.aggregation_type IN ('sum', 'average') THEN sum(counted.sum)
            WHEN rolled.aggregation_type = 'max' THEN max(counted.max)
            WHEN rolled.aggregation_type = 'min' THEN min(counted.min)
            WHEN rolled.aggregation_type = 'latest'
            THEN (array_agg(counted.latest ORDER BY counted.latest_at DESC NULLS LAST, counted.latest_id COLLATE "C" DESC))[1]
        END AS figure
    FROM counted_usage counted
    -- Values that are too long to be an index entry are kept as a digest, which says nothing to check.
    CROSS JOIN LATERAL (
        SELECT CASE WHEN counted.dimensions = '' THEN '{}' WHEN counted.dimensions LIKE '{%' THEN counted.dimensions::jsonb END AS dimensions
    ) parsed
    JOIN rolled ON rolled.organization_id = counted.organization_id AND rolled.metric_id = counted.metric_id
        AND rolled.filter_keys::text[] = ARRAY(SELECT key FROM jsonb_object_keys(parsed.dimensions) key ORDER BY key COLLATE "C")
    WHERE counted.bucket >= rolled.rolled_up_from AND counted.event_count > 0
    GROUP BY counted.customer_key, counted.metric_id, parsed.dimensions, counted.bucket_hours, counted.bucket, rolled.aggregation_type
)
SELECT customer_key::text AS subject,
    format('metric %s of %s, %s hours from %s: rolled up are %s events with %s, stored are %s with %s', metric_id, dimensions, bucket_hours,
        bucket, coalesce(kept.event_count, 0), kept.figure, coalesce(counted.event_count, 0), counted.figure) AS problem
FROM counted
FULL JOIN kept USING (customer_key, metric_id, dimensions, bucket_hours, bucket)
WHERE (kept.event_count IS DISTINCT FROM counted.event_count OR kept.figure IS DISTINCT FROM counted.figure)
    AND octet_length(dimensions::text) < 450
