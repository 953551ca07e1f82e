-- Events that are put right: the row is what counts, and what it was before is kept beside it.

ALTER TABLE events ADD COLUMN correction smallint NOT NULL DEFAULT 0;
COMMENT ON COLUMN events.correction IS '0: as it came; 1: amended; 2: voided; 3: amended to another month, where it is now. From 2 on it counts for nothing, but its id stays known';
COMMENT ON COLUMN events.arrival IS 'Of one customer''s events that one has the greater that was committed later, corrections included; gaps mean nothing';

ALTER TABLE event_arrivals ADD COLUMN last_correction bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN event_arrivals.last_correction IS 'The number of the last correction: with the same one, and as many events in an hour, they are the same events';

CREATE TABLE event_corrections (
    customer_key uuid NOT NULL,
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    id_hash uuid NOT NULL,
    idempotency_id text NOT NULL,
    customer_id text NOT NULL,
    event_name text NOT NULL,
    time_created timestamptz NOT NULL,
    properties json NOT NULL,
    arrived bigint NOT NULL,
    arrival bigint NOT NULL,
    amended_time timestamptz,
    amended_properties json,
    corrected_at timestamptz NOT NULL,
    corrected_by text,
    reason text,
    PRIMARY KEY (customer_key, id),
    CONSTRAINT event_corrections_amended_check CHECK ((amended_time IS NULL) = (amended_properties IS NULL)),
    CONSTRAINT event_corrections_arrival_check CHECK (arrived < arrival)
);
CREATE INDEX event_corrections_id_hash_idx ON event_corrections (customer_key, id_hash, arrival);
COMMENT ON TABLE event_corrections IS 'What was corrected of events: each as it was before, and what it became; appended to and never changed';
COMMENT ON COLUMN event_corrections.time_created IS 'When it had happened, as was thought before';
COMMENT ON COLUMN event_corrections.properties IS 'Its properties before';
COMMENT ON COLUMN event_corrections.arrived IS 'Its arrival number before: who saw up to a number from this one on, and not up to arrival, saw it so';
COMMENT ON COLUMN event_corrections.arrival IS 'The arrival number of the correction';
COMMENT ON COLUMN event_corrections.amended_time IS 'When it really happened; null: it was voided';
COMMENT ON COLUMN event_corrections.corrected_at IS 'In the customer''s own time';
COMMENT ON COLUMN event_corrections.corrected_by IS 'The prefix of an API key, or the id of a user';

CREATE FUNCTION refuse_event_correction_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'corrections of events do not change' USING ERRCODE = 'integrity_constraint_violation';
END
$$;
COMMENT ON FUNCTION refuse_event_correction_change IS 'Keeps corrections of events as they were written';
CREATE TRIGGER event_corrections_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON event_corrections
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_event_correction_change();
REVOKE UPDATE, DELETE, TRUNCATE ON event_corrections FROM PUBLIC;
ALTER TABLE event_corrections SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000);

-- What counts for nothing is seen by nobody who counts.
CREATE OR REPLACE VIEW custom_metric_events AS
    SELECT organization_id, customer_key, time_created, event_name, idempotency_id, properties FROM events WHERE correction < 2;

CREATE OR REPLACE FUNCTION metered_events(
    owner uuid, customer uuid, name text, start_at timestamptz, end_at timestamptz, wanted json, metric_filters json
) RETURNS SETOF events LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT event.*
    FROM events event
    WHERE event.customer_key = customer
        AND event.time_created >= start_at AND event.time_created < end_at
        AND event.event_name = name
        AND event.correction < 2
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

CREATE OR REPLACE FUNCTION has_events_ahead(owner uuid, customer uuid, name text, at timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM events event
        WHERE event.customer_key = customer
            AND event.time_created > at
            AND event.time_created < date_trunc('hour', at, 'UTC') + interval '1 hour'
            AND event.event_name = name
            AND event.correction < 2
            AND event.organization_id = owner
    );
END
$$;
