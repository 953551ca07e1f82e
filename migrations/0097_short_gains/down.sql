-- What is open is written as it was.
UPDATE open_hours open SET gains = coalesce((
    SELECT json_object_agg(gain.key::uuid, CASE json_typeof(gain.value)
        WHEN 'array' THEN json_strip_nulls(json_build_object(
            'event_count', gain.value -> 0,
            'sum', gain.value -> 1,
            'max', gain.value -> 2,
            'min', gain.value -> 3,
            'latest', CASE WHEN json_typeof(gain.value -> 4) = 'array' THEN json_build_object(
                'number', gain.value -> 4 -> 0, 'at', gain.value -> 4 -> 1, 'id', gain.value -> 4 -> 2
            ) END
        ))
        ELSE gain.value
    END)
    FROM json_each(open.gains) gain
), '{}');

CREATE OR REPLACE FUNCTION gains_of_hour(gains json, metric uuid) RETURNS TABLE (
    event_count bigint, sum numeric, max numeric, min numeric, latest numeric, latest_at timestamptz, latest_id text
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT (own.gain ->> 'event_count')::bigint, coalesce((own.gain ->> 'sum')::numeric, 0), (own.gain ->> 'max')::numeric,
        (own.gain ->> 'min')::numeric, (own.gain -> 'latest' ->> 'number')::numeric,
        (own.gain -> 'latest' ->> 'at')::timestamptz, own.gain -> 'latest' ->> 'id'
    FROM (SELECT gains -> metric::text AS gain OFFSET 0) own
    WHERE own.gain IS NOT NULL
$$;

COMMENT ON COLUMN open_hours.gains IS 'By metric id: event_count, and of sum, max, min and latest (number, at, id) what the metric needs';
