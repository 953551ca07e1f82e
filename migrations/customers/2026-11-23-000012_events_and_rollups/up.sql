-- Usage events and what is counted of them.

CREATE TABLE event_names (
    organization_id uuid NOT NULL CONSTRAINT event_names_organization_id_fkey REFERENCES organizations,
    name text NOT NULL,
    latest_before timestamptz NOT NULL,
    PRIMARY KEY (organization_id, name)
);
COMMENT ON TABLE event_names IS 'Every event name ever sent: from when on a new metric''s roll-ups are complete';
COMMENT ON COLUMN event_names.latest_before IS 'A whole hour; no event of this name is dated at or after it';

CREATE TABLE event_arrivals (
    organization_id uuid NOT NULL,
    lane integer NOT NULL CHECK (lane BETWEEN 0 AND 255),
    last_arrival bigint NOT NULL,
    PRIMARY KEY (organization_id, lane)
) WITH (fillfactor = 50);
COMMENT ON TABLE event_arrivals IS 'How far the arrival numbers of an organization''s events have come, by the lane of their customers';
COMMENT ON COLUMN event_arrivals.last_arrival IS 'Goes up in the transaction that stores events, under the lane''s lock: who sees this number sees them all';

CREATE TABLE events (
    organization_id uuid NOT NULL,
    customer_key uuid NOT NULL,
    customer_id text NOT NULL,
    id_hash uuid NOT NULL,
    idempotency_id text NOT NULL,
    event_name text NOT NULL,
    time_created timestamptz NOT NULL,
    properties json NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    arrival bigint NOT NULL
) PARTITION BY RANGE (time_created);
CREATE INDEX events_customer_key_idx ON events (customer_key, time_created);
COMMENT ON TABLE events IS 'Usage events, one partition per UTC month; a customer''s id is unique in each by an index of the partition''s own';
COMMENT ON COLUMN events.id_hash IS 'First 16 bytes of the SHA-256 of idempotency_id';
COMMENT ON COLUMN events.idempotency_id IS 'The sender''s id: the first event with it counts';
COMMENT ON COLUMN events.time_created IS 'When it happened';
COMMENT ON COLUMN events.properties IS 'As sent, kept as text: jsonb would write 1e30 as 31 digits and refuse 1e200000';
COMMENT ON COLUMN events.received_at IS 'When it was stored';
COMMENT ON COLUMN events.arrival IS 'Of one customer''s events that one has the greater that was committed later; gaps mean nothing';

-- In the schema of its table, as all that customers own: custom_metric has what is the same for all.
CREATE VIEW custom_metric_events AS
    SELECT organization_id, customer_key, time_created, event_name, idempotency_id, properties FROM events;
COMMENT ON VIEW custom_metric_events IS 'Usage events, for the role that runs custom metrics';

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

-- In a language of its own, so that whoever calls it does not have the months of events in its own plan.
CREATE FUNCTION has_events_ahead(owner uuid, customer uuid, name text, at timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM events event
        WHERE event.customer_key = customer
            AND event.time_created > at
            AND event.time_created < date_trunc('hour', at, 'UTC') + interval '1 hour'
            AND event.event_name = name
            AND event.organization_id = owner
    );
END
$$;
COMMENT ON FUNCTION has_events_ahead IS 'Whether a customer has events of a name that are dated later than an instant, but within its hour';

CREATE FUNCTION set_events_partition_storage(partition regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Events are added and never changed: what a vacuum is for here is the map of pages that all may see.
    EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.02,
        autovacuum_analyze_threshold = 5000)', partition);
END
$$;
COMMENT ON FUNCTION set_events_partition_storage IS 'Sets when a month of events is vacuumed and analyzed: it inherits no such settings';

-- Months are made here and nowhere else. CREATE TABLE .. PARTITION OF would wait for every running insert; ATTACH does
-- not, and an empty table has nothing to be checked.
CREATE FUNCTION create_events_partition(month_start timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    month_end timestamptz := (month_start AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
    partition text := to_char(month_start AT TIME ZONE 'UTC', '"events_"YYYY"_"MM');
BEGIN
    -- Lock class 4 is that of partitions.
    PERFORM pg_advisory_xact_lock(4, hashtext(current_schema() || '.' || partition));
    IF to_regclass(format('%I.%I', current_schema(), partition)) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE events INCLUDING DEFAULTS)', partition);
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (id_hash, customer_key)', partition || '_id_hash_key', partition);
    EXECUTE format('CREATE INDEX %I ON %I (customer_key, time_created)', partition || '_customer_key_idx', partition);
    EXECUTE format('COMMENT ON TABLE %I IS %L', partition, 'Events of one UTC month');
    PERFORM set_events_partition_storage(partition::regclass);
    EXECUTE format(
        'ALTER TABLE events ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition, month_start, month_end
    );
END
$$;
COMMENT ON FUNCTION create_events_partition IS 'Makes the events partition of the UTC month that starts then, unless it exists';

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

-- The hour that is being counted is one row for all metrics of an event name. Usage is what the roll-ups by hour and by
-- day and the hot bucket say together.

CREATE TABLE hot_buckets (
    customer_key uuid NOT NULL,
    organization_id uuid NOT NULL,
    event_name text NOT NULL,
    dimensions text NOT NULL,
    hour timestamptz NOT NULL,
    deltas json NOT NULL,
    PRIMARY KEY (customer_key, event_name, dimensions)
) WITH (fillfactor = 50);
COMMENT ON TABLE hot_buckets IS 'The hour that a customer''s events of a name are counted in; what an earlier one gained is in usage_rollup';
COMMENT ON COLUMN hot_buckets.dimensions IS 'As in usage_rollup';
COMMENT ON COLUMN hot_buckets.hour IS 'Its first instant';
COMMENT ON COLUMN hot_buckets.deltas IS 'By the 32 digits of a metric''s id: [event_count, sum, max, min, [latest number, at, id]], up to the last that the metric needs';

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
    FROM hot_buckets open
    CROSS JOIN LATERAL deltas_of_hour(open.deltas, metric) gained
    WHERE hours = 0 AND open.customer_key = customer AND open.event_name = name AND open.dimensions = wanted
        AND open.hour >= start_at AND open.hour < end_at
        AND open.organization_id = owner
$$;
COMMENT ON FUNCTION rolled_up_usage IS 'The buckets of so many hours within a time; of none: the hot bucket, if it is within that time';

CREATE VIEW counted_usage AS
    SELECT organization_id, customer_key, metric_id, dimensions, bucket_hours, bucket, event_count, sum, max, min,
        latest, latest_at, latest_id
    FROM usage_rollup
    UNION ALL
    SELECT open.organization_id, open.customer_key, delta.metric::uuid, open.dimensions, level.bucket_hours, level.bucket,
        gained.*
    FROM hot_buckets open
    CROSS JOIN LATERAL json_object_keys(open.deltas) delta (metric)
    CROSS JOIN LATERAL deltas_of_hour(open.deltas, delta.metric::uuid) gained
    CROSS JOIN LATERAL (
        VALUES (1::smallint, open.hour), (24::smallint, date_trunc('day', open.hour, 'UTC'))
    ) level (bucket_hours, bucket);
COMMENT ON VIEW counted_usage IS 'All that is counted, by hour and by day; a bucket may be in several rows, which are to be added up';

-- A version on each customer's roll-ups, so that a process can tell whether the sums that it remembers of them still hold.
-- Triggers set it: whoever changes roll-ups, by whatever way, is seen by every process from the commit on.

CREATE TABLE rollup_versions (
    customer_key uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    version uuid NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE rollup_versions IS 'Another version with every change of a customer''s rows in usage_rollup; none: they have not changed since there are versions';
COMMENT ON COLUMN rollup_versions.version IS 'Random, and never the same again: also a database that was restored cannot be taken for a later one';

CREATE FUNCTION renew_rollup_versions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO rollup_versions (customer_key, organization_id, version)
    SELECT DISTINCT ON (customer_key) customer_key, organization_id, gen_random_uuid()
    FROM changed
    ORDER BY customer_key
    ON CONFLICT (customer_key) DO UPDATE SET version = excluded.version;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION renew_rollup_versions IS 'Gives the roll-ups of each changed row''s customer another version';

CREATE TRIGGER usage_rollup_version_inserted AFTER INSERT ON usage_rollup
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION renew_rollup_versions();
CREATE TRIGGER usage_rollup_version_updated AFTER UPDATE ON usage_rollup
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION renew_rollup_versions();
CREATE TRIGGER usage_rollup_version_deleted AFTER DELETE ON usage_rollup
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION renew_rollup_versions();

-- When tables are vacuumed and analyzed. By the usual settings after a fifth and a tenth of their rows have changed: a table of
-- ten million rows is then planned by what it was a million rows ago, and one of a few hundred rows that change a thousand times
-- a second has long grown to many times its size.
DO $$
DECLARE
    name text;
BEGIN
    -- Many rows, ever more of them.
    FOREACH name IN ARRAY ARRAY['event_names', 'usage_rollup']
    LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
            autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000)', name);
    END LOOP;
    -- A row for each customer or lane, or a few, written again and again.
    FOREACH name IN ARRAY ARRAY['event_arrivals', 'hot_buckets', 'rollup_versions']
    LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
            autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0)', name);
    END LOOP;
END
$$;
