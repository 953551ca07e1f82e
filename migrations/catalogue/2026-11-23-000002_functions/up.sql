-- Functions that read no table: what is a number and a text in an event's property, what a custom metric may call, and what
-- a hot bucket says. All of them are plain mathematics, and the same for every customer.

-- Customers' tables need it: no two subscriptions to one plan overlap.
CREATE EXTENSION IF NOT EXISTS btree_gist;

-- The number that a text is, by the rules of the domain's decimal::parse_property: at most 60 characters, exponent
-- within 30 either way; null for anything else. Never raises, and keeps every digit. (These functions are not STRICT,
-- because Postgres would then not inline them.)
CREATE FUNCTION bounded_number(number_text text) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN octet_length(number_text) <= 60
            AND number_text ~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0*([0-2]?[0-9]|30))?$'
        THEN number_text::numeric
    END
$$;
COMMENT ON FUNCTION bounded_number IS 'The number in a text, or null; agrees with the domain''s decimal::parse_property';

CREATE FUNCTION property_number(properties json, name text) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE json_typeof(properties -> name)
        WHEN 'number' THEN bounded_number(properties ->> name)
        WHEN 'string' THEN bounded_number(properties ->> name)
    END
$$;
COMMENT ON FUNCTION property_number IS 'The number in an event property, or null; agrees with the domain''s event::property_number';

CREATE FUNCTION property_text(properties json, name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE json_typeof(properties -> name)
        WHEN 'string' THEN properties ->> name
        WHEN 'boolean' THEN properties ->> name
        WHEN 'number' THEN coalesce(
            -- Every zero is '0'.
            regexp_replace(bounded_number(properties ->> name)::text, '^0[.]0+$', '0'),
            properties ->> name
        )
    END
$$;
COMMENT ON FUNCTION property_text IS 'The text of an event property that filters compare; agrees with the domain''s event::property_text';

CREATE FUNCTION deltas_of_hour(deltas json, metric uuid) RETURNS TABLE (
    event_count bigint, sum numeric, max numeric, min numeric, latest numeric, latest_at timestamptz, latest_id text
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT (own.delta ->> 0)::bigint, coalesce(own.delta ->> 1, '0')::numeric, (own.delta ->> 2)::numeric, (own.delta ->> 3)::numeric,
        (own.delta -> 4 ->> 0)::numeric, (own.delta -> 4 ->> 1)::timestamptz, own.delta -> 4 ->> 2
    FROM (SELECT deltas -> replace(metric::text, '-', '') AS delta OFFSET 0) own
    WHERE own.delta IS NOT NULL
$$;
COMMENT ON FUNCTION deltas_of_hour IS 'What a metric has gained in a hot bucket; no row when nothing';

-- What custom metrics may call, apart from everything else. The one view that they may see, custom_metric_events, stands beside
-- its table.
--
-- Every function here is total: it answers null or 'NaN' where another would raise an error, so that the order in which
-- Postgres evaluates a query cannot be seen. Each agrees with the interpreter of billing-domain; a property test holds
-- the two together.

CREATE SCHEMA custom_metric;
COMMENT ON SCHEMA custom_metric IS 'All that a custom metric can call';

CREATE FUNCTION custom_metric.number(value text) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN value IS NOT NULL THEN coalesce(public.bounded_number(value), 'NaN') END
$$;
COMMENT ON FUNCTION custom_metric.number IS 'The number that a text is; NaN for any other text';

CREATE FUNCTION custom_metric.multiply(a numeric, b numeric) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN abs(a * b) >= 1e100 THEN 'NaN' ELSE round(a * b, 60) END
$$;
COMMENT ON FUNCTION custom_metric.multiply IS 'A product with at most 60 decimals; NaN from 10^100 on';

-- The quotient is cut at 61 decimals exactly, so that rounding to 60 sees every tie.
CREATE FUNCTION custom_metric.divide(a numeric, b numeric) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN a IS NULL THEN NULL
        WHEN b = 0 THEN 'NaN'
        ELSE round(div(a * 1e61, b) * 1e-61, 60)
    END
$$;
COMMENT ON FUNCTION custom_metric.divide IS 'A quotient with at most 60 decimals, half away from zero; NaN by zero';

CREATE FUNCTION custom_metric.within_calendar(moment timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN moment >= '0001-01-01 00:00+00' AND moment < '10000-01-01 00:00+00' THEN moment END
$$;
COMMENT ON FUNCTION custom_metric.within_calendar IS 'An instant in the years 1 to 9999; null for any other';

CREATE FUNCTION custom_metric.shift(moment timestamptz, span interval) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT custom_metric.within_calendar(moment + span)
$$;
COMMENT ON FUNCTION custom_metric.shift IS 'An instant moved by a fixed time; null beyond the years 1 to 9999';

CREATE FUNCTION custom_metric.time(value text) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    part text[] := regexp_match(
        value,
        '^([0-9]{4})-([0-9]{2})-([0-9]{2})'
        '(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.]([0-9]{1,6}))?)?(?:Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?$'
    );
    year integer := part[1];
    month integer := part[2];
    day integer := part[3];
    hour integer := coalesce(part[4], '0');
    minute integer := coalesce(part[5], '0');
    second integer := coalesce(part[6], '0');
    microseconds integer := rpad(coalesce(part[7], ''), 6, '0');
    east_hours integer := coalesce(part[9], '0');
    east_minutes integer := coalesce(part[10], '0');
    east interval := make_interval(mins => (east_hours * 60 + east_minutes) * CASE part[8] WHEN '-' THEN -1 ELSE 1 END);
BEGIN
    IF part IS NULL OR year < 1 OR month NOT BETWEEN 1 AND 12 OR hour > 23 OR minute > 59 OR second > 59
        OR east_hours > 15 OR east_minutes > 59 OR day < 1
        OR day > extract(day FROM make_date(year, month, 1) + interval '1 month' - interval '1 day')
    THEN
        RETURN NULL;
    END IF;
    RETURN custom_metric.within_calendar(
        (make_timestamp(year, month, day, hour, minute, second) + microseconds * interval '1 microsecond' - east)
            AT TIME ZONE 'UTC'
    );
END
$$;
COMMENT ON FUNCTION custom_metric.time IS 'The instant that a text is, as an ISO date or date-time; null for any other text';
