-- Fails while there are entries of providers: they are not to be lost.
ALTER TABLE organization_audit_entries DROP CONSTRAINT organization_audit_entries_actor_kind_check,
    ADD CONSTRAINT organization_audit_entries_actor_kind_check CHECK (actor_kind IN ('api_key', 'user'));
COMMENT ON COLUMN organization_audit_entries.actor_id IS 'The prefix of the API key, or the id of the user';
COMMENT ON COLUMN organization_audit_entries.actor_name IS 'The name of the key, or the address of the user, as it was then';
DROP TABLE sign_in_attempts;
ALTER TABLE memberships DROP COLUMN issuer;
DROP TABLE user_identities;
