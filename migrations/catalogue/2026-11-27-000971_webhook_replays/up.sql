-- A turn that is on its way while its endpoint is sent back to where that turn began must not move it on.
ALTER TABLE webhook_endpoints ADD COLUMN replays bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN webhook_endpoints.replays IS 'How often it was sent back to a position: a turn that was read before that does not move it on';
