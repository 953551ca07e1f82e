-- Which events somebody watches come in, and what the processes pass to each other of them: for people, and gone with the moment. Nothing is
-- written here while nobody watches. Unlogged: after a crash nobody watches any more.
CREATE UNLOGGED TABLE event_watches (
    process uuid NOT NULL,
    organization_id uuid NOT NULL,
    customer_id text NOT NULL,
    metric_id uuid NOT NULL,
    watched_at timestamptz NOT NULL,
    PRIMARY KEY (process, organization_id, customer_id, metric_id)
);
COMMENT ON TABLE event_watches IS 'Events that somebody watches come in, by the process that serves them; over when its time is a few seconds old';
COMMENT ON COLUMN event_watches.process IS 'A number that a process makes up when it starts';
COMMENT ON COLUMN event_watches.customer_id IS 'Only this customer''s; empty: everybody''s';
COMMENT ON COLUMN event_watches.metric_id IS 'Only those that count for this metric; nil: for any or none';

CREATE UNLOGGED TABLE passed_events (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    watcher uuid NOT NULL,
    organization_id uuid NOT NULL,
    watched_customer_id text NOT NULL,
    watched_metric_id uuid NOT NULL,
    passed_at timestamptz NOT NULL DEFAULT now(),
    skipped bigint NOT NULL,
    customer_id text NOT NULL,
    event_name text NOT NULL,
    idempotency_id text NOT NULL,
    time_created timestamptz NOT NULL,
    properties json NOT NULL
);
COMMENT ON TABLE passed_events IS 'Events that one process has taken in and another one watches, until that has fetched them';
COMMENT ON COLUMN passed_events.watcher IS 'The process that watches';
COMMENT ON COLUMN passed_events.watched_customer_id IS 'What it watches, as in event_watches';
COMMENT ON COLUMN passed_events.skipped IS 'How many more came in that are not passed on';

-- Few rows that are written again and again.
ALTER TABLE event_watches SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE passed_events SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
