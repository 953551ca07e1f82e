DROP TABLE webhook_attempts, webhook_pending, webhook_endpoints;
