-- Where organizations have messages sent, what waits to be sent again, and what was tried.

CREATE TABLE webhook_endpoints (
    organization_id uuid NOT NULL CONSTRAINT webhook_endpoints_organization_id_fkey REFERENCES organizations,
    id uuid NOT NULL,
    url text NOT NULL,
    event_types text[] NOT NULL,
    description text,
    public_key text NOT NULL,
    secret bytea NOT NULL,
    old_secret bytea,
    old_secret_until timestamptz,
    status text NOT NULL CHECK (status IN ('enabled', 'disabled')),
    disabled_reason text,
    failing_since timestamptz,
    position bigint NOT NULL CHECK (position >= 0),
    created_at timestamptz NOT NULL,
    leased_to uuid,
    leased_until timestamptz,
    served_at timestamptz,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT webhook_endpoints_old_secret_check CHECK ((old_secret IS NULL) = (old_secret_until IS NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE webhook_endpoints IS 'Where messages are sent; at most 16 of an organization';
COMMENT ON COLUMN webhook_endpoints.event_types IS 'Types of the messages that are sent; none: all';
COMMENT ON COLUMN webhook_endpoints.secret IS 'What messages are signed with, sealed by a key that follows from the key pepper';
COMMENT ON COLUMN webhook_endpoints.old_secret IS 'The one before, sealed, which signs too until old_secret_until';
COMMENT ON COLUMN webhook_endpoints.failing_since IS 'Since when every attempt has failed; null: the last one has not';
COMMENT ON COLUMN webhook_endpoints.position IS 'Messages up to this place in the feed were sent, or are among webhook_pending';
COMMENT ON COLUMN webhook_endpoints.leased_to IS 'The process that sends, until leased_until';

CREATE TABLE webhook_pending (
    organization_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    message_id uuid NOT NULL,
    position bigint NOT NULL CHECK (position > 0),
    attempts bigint NOT NULL CHECK (attempts >= 0),
    next_at timestamptz NOT NULL,
    first_at timestamptz,
    PRIMARY KEY (organization_id, endpoint_id, message_id),
    CONSTRAINT webhook_pending_endpoint_id_fkey
        FOREIGN KEY (organization_id, endpoint_id) REFERENCES webhook_endpoints ON DELETE CASCADE
) WITH (fillfactor = 70);
CREATE INDEX webhook_pending_next_at_idx ON webhook_pending (organization_id, endpoint_id, next_at, position);
COMMENT ON TABLE webhook_pending IS 'Messages that are to be sent again, or out of the order of the feed';

CREATE TABLE webhook_attempts (
    organization_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    message_id uuid NOT NULL,
    attempt bigint NOT NULL CHECK (attempt > 0),
    at timestamptz NOT NULL,
    status bigint,
    duration_ms bigint NOT NULL,
    answer text NOT NULL,
    PRIMARY KEY (organization_id, endpoint_id, id),
    CONSTRAINT webhook_attempts_endpoint_id_fkey
        FOREIGN KEY (organization_id, endpoint_id) REFERENCES webhook_endpoints ON DELETE CASCADE
);
CREATE INDEX webhook_attempts_at_idx ON webhook_attempts (at);
COMMENT ON COLUMN webhook_pending.position IS 'Where it stands in the feed';
COMMENT ON TABLE webhook_attempts IS 'Every attempt to deliver a message, kept as long as messages are';
COMMENT ON COLUMN webhook_attempts.answer IS 'The beginning of the answer; without one, why there was none';

ALTER TABLE webhook_attempts SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000);
ALTER TABLE webhook_pending SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE webhook_endpoints SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
