-- What custom metrics may see and call: one view and a few functions, apart from everything else.
--
-- Every function here is total: it answers null or 'NaN' where another would raise an error, so that the order in which
-- Postgres evaluates a query cannot be seen. Each agrees with the interpreter of billing-domain; a property test holds
-- the two together.

CREATE SCHEMA custom_metric;
COMMENT ON SCHEMA custom_metric IS 'All that a custom metric can reach';

CREATE VIEW custom_metric.events AS
    SELECT organization_id, customer_key, time_created, event_name, idempotency_id, properties FROM public.events;
COMMENT ON VIEW custom_metric.events IS 'Usage events, for the role that runs custom metrics';

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
