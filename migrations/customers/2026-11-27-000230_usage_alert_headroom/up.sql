-- How far a customer's events may go before any of them could make a usage alert fire: events that are within that leave no mark.

CREATE TABLE usage_alert_headroom (
    customer_key uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    changes bigint NOT NULL DEFAULT 0,
    ingest_version bigint NOT NULL DEFAULT 0,
    until_arrivals jsonb NOT NULL DEFAULT '{}',
    holds_from timestamptz NOT NULL DEFAULT 'epoch',
    holds_until timestamptz NOT NULL DEFAULT 'epoch'
);
COMMENT ON TABLE usage_alert_headroom IS 'How far the events of customers may go before any of them could make a usage alert fire; events within that leave no mark';
COMMENT ON COLUMN usage_alert_headroom.changes IS 'How often the customer was marked for something else than an event: headroom that was found before the last time is not kept';
COMMENT ON COLUMN usage_alert_headroom.ingest_version IS 'That of the organization when it was found; under another one there is none';
COMMENT ON COLUMN usage_alert_headroom.until_arrivals IS 'By event name: the last arrival number of the customer''s key range that is within it; 0: none is. All of the names that are not here are within it';
COMMENT ON COLUMN usage_alert_headroom.holds_from IS 'In the customer''s own time';
COMMENT ON COLUMN usage_alert_headroom.holds_until IS 'In the customer''s own time; then it holds no more. Not later than the beginning: there is none';
-- A row for each customer under alerts, written again and again.
ALTER TABLE usage_alert_headroom SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);

-- In the transaction that changes what headroom stands on: also that of the program before this one, which may still be at work.
CREATE FUNCTION end_usage_alert_headroom() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_alert_headroom AS known (customer_key, organization_id, changes)
    VALUES (NEW.customer_key, NEW.organization_id, 1)
    ON CONFLICT (customer_key) DO UPDATE SET changes = known.changes + 1, holds_until = known.holds_from;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION end_usage_alert_headroom IS 'Ends the headroom of a customer who is marked for something else than an event';

CREATE TRIGGER usage_alert_marks_headroom AFTER INSERT ON usage_alert_marks
    FOR EACH ROW WHEN (NEW.at IS NULL) EXECUTE FUNCTION end_usage_alert_headroom();
