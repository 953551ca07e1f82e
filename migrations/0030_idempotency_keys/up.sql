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
