-- What is open is closed.
INSERT INTO usage_rollup AS rollup
    (organization_id, customer_key, metric_id, dimensions, bucket_hours, bucket, event_count, sum, max, min, latest, latest_at, latest_id)
SELECT open.organization_id, open.customer_key, gain.metric::uuid, open.dimensions, level.bucket_hours, level.bucket, gained.*
FROM open_hours open
CROSS JOIN LATERAL json_object_keys(open.gains) gain (metric)
CROSS JOIN LATERAL gains_of_hour(open.gains, gain.metric::uuid) gained
CROSS JOIN LATERAL (VALUES (1::smallint, open.hour), (24::smallint, date_trunc('day', open.hour, 'UTC'))) level (bucket_hours, bucket)
ON CONFLICT (customer_key, metric_id, dimensions, bucket_hours, bucket) DO UPDATE SET
    event_count = rollup.event_count + excluded.event_count,
    sum = rollup.sum + excluded.sum,
    max = greatest(rollup.max, excluded.max),
    min = least(rollup.min, excluded.min),
    latest = CASE WHEN (excluded.latest_at, excluded.latest_id) > (rollup.latest_at, rollup.latest_id)
        THEN excluded.latest ELSE rollup.latest END,
    latest_at = CASE WHEN (excluded.latest_at, excluded.latest_id) > (rollup.latest_at, rollup.latest_id)
        THEN excluded.latest_at ELSE rollup.latest_at END,
    latest_id = CASE WHEN (excluded.latest_at, excluded.latest_id) > (rollup.latest_at, rollup.latest_id)
        THEN excluded.latest_id ELSE rollup.latest_id END;
DROP VIEW counted_usage;
DROP FUNCTION rolled_up_usage;
DROP FUNCTION gains_of_hour;
DROP TABLE open_hours;
