-- For whom usage alerts have fired, and whose figures are to be looked at.

CREATE TABLE usage_alert_firings (
    customer_key uuid NOT NULL,
    usage_alert_id uuid NOT NULL,
    interval_start timestamptz NOT NULL,
    organization_id uuid NOT NULL,
    fired_at timestamptz NOT NULL,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (customer_key, usage_alert_id, interval_start)
);
COMMENT ON TABLE usage_alert_firings IS 'That a usage alert has fired: once for a customer and an interval, with the message about it';
COMMENT ON COLUMN usage_alert_firings.usage_alert_id IS 'The alert, which may have been deleted since';
COMMENT ON COLUMN usage_alert_firings.fired_at IS 'When, in the customer''s own time';
COMMENT ON COLUMN usage_alert_firings.written_at IS 'The same in real time';

CREATE TABLE usage_alert_marks (
    customer_key uuid NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    organization_id uuid NOT NULL,
    at timestamptz,
    PRIMARY KEY (customer_key, id)
);
CREATE INDEX usage_alert_marks_organization_id_idx ON usage_alert_marks (organization_id, id);
COMMENT ON TABLE usage_alert_marks IS 'Customers whose figures are to be held against usage alerts; a mark is committed with what changed a figure';
COMMENT ON COLUMN usage_alert_marks.at IS 'When events were stored, in the customer''s own time; null: something else has changed';

ALTER TABLE usage_alert_firings SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000);
ALTER TABLE usage_alert_marks SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
