-- Who changed what of a customer.

CREATE TABLE audit_entries (
    customer_key uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    actor_kind text NOT NULL CHECK (actor_kind IN ('api_key', 'user')),
    actor_id text NOT NULL,
    actor_name text NOT NULL,
    address text,
    request_id text NOT NULL,
    operation text NOT NULL,
    kind text NOT NULL,
    subject text,
    before text,
    after text,
    PRIMARY KEY (customer_key, at, id)
);
CREATE INDEX audit_entries_organization_id_idx ON audit_entries (organization_id, at, id);
COMMENT ON TABLE audit_entries IS 'Changes of what is a customer''s, each written in its transaction; appended to and never changed';
COMMENT ON COLUMN audit_entries.at IS 'When it was made, in real time, whatever clock the customer lives by';
COMMENT ON COLUMN audit_entries.actor_id IS 'The prefix of the API key, or the id of the user';
COMMENT ON COLUMN audit_entries.actor_name IS 'The name of the key, or the address of the user, as it was then';
COMMENT ON COLUMN audit_entries.operation IS 'What was called, by the name that the interface gives it';
COMMENT ON COLUMN audit_entries.before IS 'The thing as it was shown before: JSON; null: it was not there';
COMMENT ON COLUMN audit_entries.after IS 'What the call answered, without secrets: JSON; null: it is not there any more';

CREATE TRIGGER audit_entries_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
REVOKE UPDATE, DELETE, TRUNCATE ON audit_entries FROM PUBLIC;
ALTER TABLE audit_entries SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000);
