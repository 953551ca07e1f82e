-- What a metric gains in an open hour is a list under the digits of its id: half the bytes of what is written with nearly
-- every event. Hours of before are read as they are, and written anew when they go on.

COMMENT ON COLUMN open_hours.gains IS 'By the 32 digits of a metric''s id: [event_count, sum, max, min, [latest number, at, id]], up to the last that the metric needs. Hours written by older releases: objects with these names, by id with hyphens';

CREATE OR REPLACE FUNCTION gains_of_hour(gains json, metric uuid) RETURNS TABLE (
    event_count bigint, sum numeric, max numeric, min numeric, latest numeric, latest_at timestamptz, latest_id text
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(own.listed ->> 0, own.named ->> 'event_count')::bigint,
        coalesce(own.listed ->> 1, own.named ->> 'sum', '0')::numeric,
        coalesce(own.listed ->> 2, own.named ->> 'max')::numeric,
        coalesce(own.listed ->> 3, own.named ->> 'min')::numeric,
        coalesce(own.listed -> 4 ->> 0, own.named -> 'latest' ->> 'number')::numeric,
        coalesce(own.listed -> 4 ->> 1, own.named -> 'latest' ->> 'at')::timestamptz,
        coalesce(own.listed -> 4 ->> 2, own.named -> 'latest' ->> 'id')
    FROM (
        -- Each is looked up once, and the older spelling only where the other one is not there.
        SELECT short.listed, CASE WHEN short.listed IS NULL THEN gains -> metric::text END AS named
        FROM (SELECT gains -> replace(metric::text, '-', '') AS listed OFFSET 0) short
        OFFSET 0
    ) own
    WHERE coalesce(own.listed, own.named) IS NOT NULL
$$;
