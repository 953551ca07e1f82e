DELETE FROM api_keys WHERE kind <> 'api_key';
ALTER TABLE api_keys DROP COLUMN kind;
