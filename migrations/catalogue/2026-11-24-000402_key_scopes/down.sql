DO $$
BEGIN
    IF EXISTS (SELECT FROM api_keys WHERE scopes IS NOT NULL) THEN
        RAISE EXCEPTION 'there are API keys that may not be used for everything: without their scopes they could be';
    END IF;
END
$$;
ALTER TABLE api_keys DROP COLUMN scopes, DROP COLUMN last_used_at;
