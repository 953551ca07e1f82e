-- The hour that is being counted is one row for all metrics of an event name. Usage is what the roll-ups by hour and by
-- day and the open hour say together.

CREATE TABLE open_hours (
    customer_key uuid NOT NULL,
    organization_id uuid NOT NULL,
    event_name text NOT NULL,
    dimensions text NOT NULL,
    hour timestamptz NOT NULL,
    gains json NOT NULL,
    PRIMARY KEY (customer_key, event_name, dimensions)
) WITH (fillfactor = 50);
COMMENT ON TABLE open_hours IS 'The hour that a customer''s events of a name are counted in; what an earlier one gained is in usage_rollup';
COMMENT ON COLUMN open_hours.dimensions IS 'As in usage_rollup';
COMMENT ON COLUMN open_hours.hour IS 'Its first instant';
COMMENT ON COLUMN open_hours.gains IS 'By metric id: event_count, and of sum, max, min and latest (number, at, id) what the metric needs';

CREATE FUNCTION gains_of_hour(gains json, metric uuid) RETURNS TABLE (
    event_count bigint, sum numeric, max numeric, min numeric, latest numeric, latest_at timestamptz, latest_id text
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT (own.gain ->> 'event_count')::bigint, coalesce((own.gain ->> 'sum')::numeric, 0), (own.gain ->> 'max')::numeric,
        (own.gain ->> 'min')::numeric, (own.gain -> 'latest' ->> 'number')::numeric,
        (own.gain -> 'latest' ->> 'at')::timestamptz, own.gain -> 'latest' ->> 'id'
    FROM (SELECT gains -> metric::text AS gain OFFSET 0) own
    WHERE own.gain IS NOT NULL
$$;
COMMENT ON FUNCTION gains_of_hour IS 'What a metric has gained in an open hour; no row when nothing';

-- Postgres puts the text of this in place of a call.
CREATE FUNCTION rolled_up_usage(
    owner uuid, customer uuid, metric uuid, name text, wanted text, hours smallint, start_at timestamptz, end_at timestamptz
) RETURNS TABLE (
    bucket timestamptz, event_count bigint, sum numeric, max numeric, min numeric,
    latest numeric, latest_at timestamptz, latest_id text
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT rollup.bucket, rollup.event_count, rollup.sum, rollup.max, rollup.min,
        rollup.latest, rollup.latest_at, rollup.latest_id
    FROM usage_rollup rollup
    WHERE rollup.customer_key = customer AND rollup.metric_id = metric AND rollup.dimensions = wanted
        AND rollup.bucket_hours = hours AND rollup.bucket >= start_at AND rollup.bucket < end_at
        AND rollup.organization_id = owner
    UNION ALL
    SELECT open.hour, gained.*
    FROM open_hours open
    CROSS JOIN LATERAL gains_of_hour(open.gains, metric) gained
    WHERE hours = 0 AND open.customer_key = customer AND open.event_name = name AND open.dimensions = wanted
        AND open.hour >= start_at AND open.hour < end_at
        AND open.organization_id = owner
$$;
COMMENT ON FUNCTION rolled_up_usage IS 'The buckets of so many hours within a time; of none: the open hour, if it is within that time';

CREATE VIEW counted_usage AS
    SELECT organization_id, customer_key, metric_id, dimensions, bucket_hours, bucket, event_count, sum, max, min,
        latest, latest_at, latest_id
    FROM usage_rollup
    UNION ALL
    SELECT open.organization_id, open.customer_key, gain.metric::uuid, open.dimensions, level.bucket_hours, level.bucket,
        gained.*
    FROM open_hours open
    CROSS JOIN LATERAL json_object_keys(open.gains) gain (metric)
    CROSS JOIN LATERAL gains_of_hour(open.gains, gain.metric::uuid) gained
    CROSS JOIN LATERAL (
        VALUES (1::smallint, open.hour), (24::smallint, date_trunc('day', open.hour, 'UTC'))
    ) level (bucket_hours, bucket);
COMMENT ON VIEW counted_usage IS 'All that is counted, by hour and by day; a bucket may be in several rows, which are to be added up';
