-- A constant default: no row is rewritten, and programs that know nothing of kinds go on making API keys.
ALTER TABLE api_keys ADD COLUMN kind text NOT NULL DEFAULT 'api_key'
    CONSTRAINT api_keys_kind_check CHECK (kind IN ('api_key', 'access_token'));
COMMENT ON COLUMN api_keys.kind IS 'An access token opens nothing by itself: it goes beside an API key';
