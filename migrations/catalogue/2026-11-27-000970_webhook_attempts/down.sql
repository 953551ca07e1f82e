-- Those of an endpoint that was deleted meanwhile are of no use to anybody.
DELETE FROM webhook_attempts
WHERE NOT EXISTS (
    SELECT FROM webhook_endpoints endpoint
    WHERE endpoint.organization_id = webhook_attempts.organization_id AND endpoint.id = webhook_attempts.endpoint_id
);
ALTER TABLE webhook_attempts ADD CONSTRAINT webhook_attempts_endpoint_id_fkey
    FOREIGN KEY (organization_id, endpoint_id) REFERENCES webhook_endpoints ON DELETE CASCADE;
COMMENT ON TABLE webhook_attempts IS 'Every attempt to deliver a message, kept as long as messages are';
