-- How many events came in, by minute, and which of them count for nothing: for people. Every process adds what it has stored every few seconds,
-- never in the transaction that stores events.
CREATE TABLE event_minutes (
    organization_id uuid NOT NULL CONSTRAINT event_minutes_organization_id_fkey REFERENCES organizations,
    minute timestamptz NOT NULL,
    stored bigint NOT NULL,
    of_unknown_customers bigint NOT NULL,
    of_unknown_names bigint NOT NULL,
    PRIMARY KEY (organization_id, minute)
);
COMMENT ON TABLE event_minutes IS 'How many events came in within a minute; the minutes of about two hours are kept';
COMMENT ON COLUMN event_minutes.minute IS 'Its first instant, by the clock of the server that stored the events';
COMMENT ON COLUMN event_minutes.of_unknown_customers IS 'Of those how many had a customer_id that was nobody''s';
COMMENT ON COLUMN event_minutes.of_unknown_names IS 'Of the others how many had a name that no metric counted';

CREATE TABLE uncounted_events (
    organization_id uuid NOT NULL CONSTRAINT uncounted_events_organization_id_fkey REFERENCES organizations,
    reason text NOT NULL CHECK (reason IN ('unknown_customer', 'unknown_event_name')),
    subject text NOT NULL,
    event_name text NOT NULL,
    customer_id text NOT NULL,
    event_count bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (organization_id, reason, subject)
);
COMMENT ON TABLE uncounted_events IS 'Events that counted for nothing when they came, by what was unknown of them; the latest hundred of an organization within a day';
COMMENT ON COLUMN uncounted_events.subject IS 'What was unknown: the customer_id, or the name';
COMMENT ON COLUMN uncounted_events.event_name IS 'The name of the latest';
COMMENT ON COLUMN uncounted_events.customer_id IS 'The customer of the latest';
COMMENT ON COLUMN uncounted_events.first_at IS 'When the first came, or the first after none had come for a day';

-- Few rows that are written again and again.
ALTER TABLE event_minutes SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE uncounted_events SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
