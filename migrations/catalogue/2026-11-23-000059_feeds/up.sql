-- The feeds of organizations: in which order what became true was told. Messages are where their facts are: a customer's in its lane, an
-- organization's own here.

CREATE TABLE organization_messages (
    organization_id uuid NOT NULL,
    id uuid NOT NULL,
    message_type text NOT NULL,
    at timestamptz NOT NULL,
    data text NOT NULL,
    is_placed boolean NOT NULL DEFAULT false,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (organization_id, id)
) WITH (fillfactor = 80);
CREATE INDEX organization_messages_unplaced_idx ON organization_messages (written_at, id) WHERE NOT is_placed;
COMMENT ON TABLE organization_messages IS 'What became true of organizations and of what they offer, as it was told';
COMMENT ON COLUMN organization_messages.data IS 'What it says: a JSON object, byte for byte as it is sent';
COMMENT ON COLUMN organization_messages.is_placed IS 'Whether it stands in the feed';
COMMENT ON COLUMN organization_messages.written_at IS 'Real time';
ALTER TABLE organization_messages SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000);

CREATE TABLE feed_entries (
    organization_id uuid NOT NULL,
    position bigint NOT NULL CHECK (position > 0),
    customer_key uuid,
    message_id uuid NOT NULL,
    message_type text NOT NULL,
    written_at timestamptz NOT NULL,
    PRIMARY KEY (organization_id, position),
    CONSTRAINT feed_entries_message_id_key UNIQUE (organization_id, message_id)
);
COMMENT ON TABLE feed_entries IS 'The places of messages in the feed of their organization, from 1 without a gap; given behind the commit of the message, by one process at a time';
COMMENT ON COLUMN feed_entries.customer_key IS 'Whose message it is; null: the organization''s own';
COMMENT ON COLUMN feed_entries.written_at IS 'Real time: messages are dropped by it';

CREATE TABLE message_counters (
    organization_id uuid NOT NULL PRIMARY KEY,
    last_position bigint NOT NULL,
    first_kept bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 50);
COMMENT ON TABLE message_counters IS 'How far the feed of each organization goes';
COMMENT ON COLUMN message_counters.first_kept IS 'What stood before this position was dropped because of its age';

ALTER TABLE feed_entries SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000);
ALTER TABLE message_counters SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
