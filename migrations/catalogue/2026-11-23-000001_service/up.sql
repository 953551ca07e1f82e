-- What the service itself keeps, and the small tables that span customers: what must be unique across them, and counters.

CREATE TABLE idempotency_keys (
    organization_id uuid NOT NULL CONSTRAINT idempotency_keys_organization_id_fkey REFERENCES organizations,
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    fingerprint bytea NOT NULL,
    status smallint,
    answer text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (organization_id, key),
    CONSTRAINT idempotency_keys_answer_check CHECK ((status IS NULL) = (answer IS NULL))
);
CREATE INDEX idempotency_keys_created_at_idx ON idempotency_keys (created_at);
COMMENT ON TABLE idempotency_keys IS 'Keys that callers give to requests, each with the answer that was given';
COMMENT ON COLUMN idempotency_keys.fingerprint IS 'Digest of the request; another one under the same key is refused';
COMMENT ON COLUMN idempotency_keys.status IS 'Null only inside the transaction that took the key';

CREATE TABLE customer_emails (
    organization_id uuid NOT NULL,
    email text NOT NULL,
    customer_key uuid NOT NULL,
    PRIMARY KEY (organization_id, email)
);
COMMENT ON TABLE customer_emails IS 'Makes an e-mail address unique in its organization: a small table that spans customers';

CREATE TABLE invoice_numbers (
    organization_id uuid NOT NULL,
    number text NOT NULL,
    customer_key uuid NOT NULL,
    invoice_id uuid NOT NULL,
    PRIMARY KEY (organization_id, number)
);
COMMENT ON TABLE invoice_numbers IS 'Makes an invoice number unique in its organization: a small table that spans customers';

CREATE TABLE invoice_counters (
    organization_id uuid PRIMARY KEY CONSTRAINT invoice_counters_organization_id_fkey REFERENCES organizations,
    last_sequence bigint NOT NULL CHECK (last_sequence >= 0)
);
COMMENT ON TABLE invoice_counters IS 'The last number of each organization''s gap-free invoice sequence';

CREATE TABLE ingest_lanes (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    lane_bits smallint NOT NULL CHECK (lane_bits BETWEEN 0 AND 8)
);
COMMENT ON TABLE ingest_lanes IS 'Into how many lanes customers are divided; one row, fixed once there are events';
COMMENT ON COLUMN ingest_lanes.lane_bits IS 'A customer''s lane is this many top bits of its key; whoever stores events holds the lane''s lock';
INSERT INTO ingest_lanes (lane_bits) VALUES (2);

CREATE TABLE ingest_versions (
    organization_id uuid PRIMARY KEY CONSTRAINT ingest_versions_organization_id_fkey REFERENCES organizations,
    version bigint NOT NULL
);
COMMENT ON TABLE ingest_versions IS 'Goes up when anything changes that ingesting an organization''s events looks at, so that it can be cached';

CREATE TABLE metric_rollups (
    organization_id uuid NOT NULL,
    metric_id uuid NOT NULL,
    filter_keys text[] NOT NULL,
    rolled_up_from timestamptz NOT NULL,
    filled_to uuid,
    PRIMARY KEY (organization_id, metric_id, filter_keys),
    CONSTRAINT metric_rollups_metric_id_fkey FOREIGN KEY (organization_id, metric_id) REFERENCES metrics
);
COMMENT ON TABLE metric_rollups IS 'Which roll-ups are kept: per metric the total, and one for each set of properties that filters name';
COMMENT ON COLUMN metric_rollups.filter_keys IS 'Property names in order; empty: the total over all events';
COMMENT ON COLUMN metric_rollups.rolled_up_from IS 'A whole hour: buckets from it on are complete, earlier usage is read from the events; -infinity: all are';
COMMENT ON COLUMN metric_rollups.filled_to IS 'Of roll-ups that are not complete: those of customers with keys up to this one are';

-- When tables are vacuumed and analyzed. By the usual settings after a fifth and a tenth of their rows have changed: a table of
-- ten million rows is then planned by what it was a million rows ago, and one of a few hundred rows that change a thousand times
-- a second has long grown to many times its size.
DO $$
DECLARE
    name text;
BEGIN
    -- Many rows, ever more of them.
    FOREACH name IN ARRAY ARRAY['customer_emails', 'idempotency_keys', 'invoice_numbers']
    LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
            autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000)', name);
    END LOOP;
    -- Few rows that are written again and again.
    FOREACH name IN ARRAY ARRAY['ingest_versions', 'invoice_counters', 'metric_rollups']
    LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
            autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0)', name);
    END LOOP;
END
$$;
