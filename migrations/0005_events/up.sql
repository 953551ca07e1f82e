-- Usage events and the roll-ups counted from them.

CREATE TABLE ingest_lanes (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    lane_bits smallint NOT NULL CHECK (lane_bits BETWEEN 0 AND 8)
);
COMMENT ON TABLE ingest_lanes IS 'Into how many lanes customers are divided; one row, fixed once there are events';
COMMENT ON COLUMN ingest_lanes.lane_bits IS 'A customer''s lane is this many top bits of its key; whoever stores events holds the lane''s lock';
INSERT INTO ingest_lanes (lane_bits) VALUES (2);

CREATE TABLE ingest_epochs (
    organization_id uuid PRIMARY KEY CONSTRAINT ingest_epochs_organization_id_fkey REFERENCES organizations,
    epoch bigint NOT NULL
);
COMMENT ON TABLE ingest_epochs IS 'Goes up when anything changes that ingesting an organization''s events looks at, so that it can be cached';

CREATE TABLE event_names (
    organization_id uuid NOT NULL CONSTRAINT event_names_organization_id_fkey REFERENCES organizations,
    name text NOT NULL,
    latest_before timestamptz NOT NULL,
    PRIMARY KEY (organization_id, name)
);
COMMENT ON TABLE event_names IS 'Every event name ever sent: from when on a new metric''s roll-ups are complete';
COMMENT ON COLUMN event_names.latest_before IS 'A whole hour; no event of this name is dated at or after it';

CREATE TABLE metric_rollups (
    organization_id uuid NOT NULL,
    metric_id uuid NOT NULL,
    filter_keys text[] NOT NULL,
    rolled_up_from timestamptz NOT NULL,
    PRIMARY KEY (organization_id, metric_id, filter_keys),
    CONSTRAINT metric_rollups_metric_id_fkey FOREIGN KEY (organization_id, metric_id) REFERENCES metrics
);
COMMENT ON TABLE metric_rollups IS 'Which roll-ups are kept: per metric the total, and one for each set of properties that filters name';
COMMENT ON COLUMN metric_rollups.filter_keys IS 'Property names in order; empty: the total over all events';
COMMENT ON COLUMN metric_rollups.rolled_up_from IS 'A whole hour: buckets from it on are complete, earlier usage is read from the events; -infinity: all are';

CREATE TABLE events (
    organization_id uuid NOT NULL,
    customer_key uuid NOT NULL,
    customer_id text NOT NULL,
    id_hash uuid NOT NULL,
    idempotency_id text NOT NULL,
    event_name text NOT NULL,
    time_created timestamptz NOT NULL,
    properties json NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now()
) PARTITION BY RANGE (time_created);
CREATE INDEX events_customer_key_idx ON events (customer_key, time_created);
COMMENT ON TABLE events IS 'Usage events, one partition per UTC month; a customer''s id is unique in each by an index of the partition''s own';
COMMENT ON COLUMN events.id_hash IS 'First 16 bytes of the SHA-256 of idempotency_id';
COMMENT ON COLUMN events.idempotency_id IS 'The sender''s id: the first event with it counts';
COMMENT ON COLUMN events.time_created IS 'When it happened';
COMMENT ON COLUMN events.properties IS 'As sent, kept as text: jsonb would write 1e30 as 31 digits and refuse 1e200000';
COMMENT ON COLUMN events.received_at IS 'When it was stored';

CREATE TABLE usage_rollup (
    customer_key uuid NOT NULL,
    organization_id uuid NOT NULL,
    metric_id uuid NOT NULL,
    dimensions text NOT NULL,
    bucket_hours smallint NOT NULL CHECK (bucket_hours IN (1, 24)),
    bucket timestamptz NOT NULL,
    event_count bigint NOT NULL,
    sum numeric NOT NULL,
    max numeric,
    min numeric,
    latest numeric,
    latest_at timestamptz,
    latest_id text COLLATE "C",
    PRIMARY KEY (customer_key, metric_id, dimensions, bucket_hours, bucket)
);
COMMENT ON TABLE usage_rollup IS 'Usage by metric, hour and UTC day, moved in the transaction that stores the events';
COMMENT ON COLUMN usage_rollup.dimensions IS 'Empty: all events; otherwise those whose properties have the names and values of this canonical JSON object';
COMMENT ON COLUMN usage_rollup.bucket_hours IS 'Length of the bucket in hours';
COMMENT ON COLUMN usage_rollup.bucket IS 'The first instant of the bucket, UTC';
COMMENT ON COLUMN usage_rollup.event_count IS 'Events in the bucket that count for the metric';
COMMENT ON COLUMN usage_rollup.sum IS 'Their numbers added up, for metrics that need it; otherwise 0';
COMMENT ON COLUMN usage_rollup.max IS 'The greatest of their numbers, for metrics that need it';
COMMENT ON COLUMN usage_rollup.min IS 'The least of their numbers, for metrics that need it';
COMMENT ON COLUMN usage_rollup.latest IS 'The number of the latest event, for metrics that need it';
COMMENT ON COLUMN usage_rollup.latest_at IS 'When the latest event was';
COMMENT ON COLUMN usage_rollup.latest_id IS 'Its idempotency id: of events at one instant that with the greatest is the latest';

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

-- The events that a part of a usage figure stands on. Postgres puts its text in place of a call, so that the months
-- outside the part are never looked at.
CREATE FUNCTION metered_events(
    owner uuid, customer uuid, name text, start_at timestamptz, end_at timestamptz, wanted json, metric_filters json
) RETURNS SETOF events LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT event.*
    FROM events event
    WHERE event.customer_key = customer
        AND event.time_created >= start_at AND event.time_created < end_at
        AND event.event_name = name
        AND event.organization_id = owner
        AND (
            wanted IS NULL
            OR NOT EXISTS (
                SELECT FROM json_each_text(wanted) filter
                WHERE property_text(event.properties, filter.key) IS DISTINCT FROM filter.value
            )
        )
        AND (
            metric_filters IS NULL
            OR NOT EXISTS (
                SELECT FROM json_to_recordset(coalesce(metric_filters -> 'numeric_filters', '[]'))
                    AS filter (property_name text, operator text, comparison_value numeric)
                WHERE NOT coalesce(
                    CASE filter.operator
                        WHEN 'gte' THEN property_number(event.properties, filter.property_name) >= filter.comparison_value
                        WHEN 'gt' THEN property_number(event.properties, filter.property_name) > filter.comparison_value
                        WHEN 'eq' THEN property_number(event.properties, filter.property_name) = filter.comparison_value
                        WHEN 'lt' THEN property_number(event.properties, filter.property_name) < filter.comparison_value
                        WHEN 'lte' THEN property_number(event.properties, filter.property_name) <= filter.comparison_value
                    END,
                    false
                )
            )
            AND NOT EXISTS (
                SELECT FROM json_to_recordset(coalesce(metric_filters -> 'categorical_filters', '[]'))
                    AS filter (property_name text, operator text, comparison_value text[])
                WHERE coalesce(
                    property_text(event.properties, filter.property_name) = ANY (filter.comparison_value), false
                ) <> (filter.operator = 'isin')
            )
        )
$$;
COMMENT ON FUNCTION metered_events IS 'A customer''s events of a name within a time that pass the filters of a subscription and of a metric; agrees with the domain''s MetricFilters::matches';

-- Months are made here and nowhere else. CREATE TABLE .. PARTITION OF would wait for every running insert; ATTACH does
-- not, and an empty table has nothing to be checked.
CREATE FUNCTION create_events_partition(month_start timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    month_end timestamptz := (month_start AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
    partition text := to_char(month_start AT TIME ZONE 'UTC', '"events_"YYYY"_"MM');
BEGIN
    -- Lock class 4 is that of partitions.
    PERFORM pg_advisory_xact_lock(4, hashtext(partition));
    IF to_regclass(partition) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE events INCLUDING DEFAULTS)', partition);
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (id_hash, customer_key)', partition || '_id_hash_key', partition);
    EXECUTE format('CREATE INDEX %I ON %I (customer_key, time_created)', partition || '_customer_key_idx', partition);
    EXECUTE format('COMMENT ON TABLE %I IS %L', partition, 'Events of one UTC month');
    EXECUTE format(
        'ALTER TABLE events ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition, month_start, month_end
    );
END
$$;
COMMENT ON FUNCTION create_events_partition IS 'Makes the events partition of the UTC month that starts then, unless it exists';
