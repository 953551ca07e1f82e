-- What API keys may be used for, and when they were used last.

ALTER TABLE api_keys ADD COLUMN scopes text[] CONSTRAINT api_keys_scopes_check
    CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['read', 'ingest', 'access_check', 'billing', 'admin']);
ALTER TABLE api_keys ADD COLUMN last_used_at timestamptz;
COMMENT ON COLUMN api_keys.scopes IS 'What it may be used for; null: everything';
COMMENT ON COLUMN api_keys.last_used_at IS 'When it was used last, give or take a minute; null: not since this is noted';
