-- Who changed what of an organization and of what it offers, and what keeps such notes as they were written.

CREATE TABLE organization_audit_entries (
    organization_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    id uuid NOT NULL,
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
    PRIMARY KEY (organization_id, at, id)
);
COMMENT ON TABLE organization_audit_entries IS 'Changes of what is the organization''s, each written in its transaction; appended to and never changed';
COMMENT ON COLUMN organization_audit_entries.at IS 'When it was made, in real time';
COMMENT ON COLUMN organization_audit_entries.actor_id IS 'The prefix of the API key, or the id of the user';
COMMENT ON COLUMN organization_audit_entries.actor_name IS 'The name of the key, or the address of the user, as it was then';
COMMENT ON COLUMN organization_audit_entries.operation IS 'What was called, by the name that the interface gives it';
COMMENT ON COLUMN organization_audit_entries.before IS 'The thing as it was shown before: JSON; null: it was not there';
COMMENT ON COLUMN organization_audit_entries.after IS 'What the call answered, without secrets: JSON; null: it is not there any more';

CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'entries of the audit log do not change' USING ERRCODE = 'restrict_violation', CONSTRAINT = 'audit_log_immutable';
END
$$;
COMMENT ON FUNCTION refuse_audit_change IS 'Refuses every change of the audit log but new entries';

CREATE TRIGGER organization_audit_entries_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON organization_audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
REVOKE UPDATE, DELETE, TRUNCATE ON organization_audit_entries FROM PUBLIC;
ALTER TABLE organization_audit_entries SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000);
