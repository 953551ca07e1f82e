-- Half of what an attempt took was a look at its endpoint, whose row the same transaction has locked: a foreign key looks once for
-- each row. Whoever deletes an endpoint deletes its attempts.
ALTER TABLE webhook_attempts DROP CONSTRAINT webhook_attempts_endpoint_id_fkey;
COMMENT ON TABLE webhook_attempts IS 'Every attempt to deliver a message, kept as long as messages and the endpoint are';
