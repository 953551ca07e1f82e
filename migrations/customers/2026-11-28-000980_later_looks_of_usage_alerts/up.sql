-- Who is to be looked at when nothing happens: events that are dated ahead count from their own instants on.

ALTER TABLE usage_alert_marks ADD COLUMN may_lie_ahead boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN usage_alert_marks.may_lie_ahead IS 'Whether there may be events that are dated ahead, for which somebody has to look again';
COMMENT ON COLUMN usage_alert_marks.at IS 'When events were stored, or began to count, in the customer''s own time; null: something else has changed';

CREATE TABLE usage_alert_looks (
    customer_key uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    is_on_clock boolean NOT NULL,
    due_at timestamptz NOT NULL
);
CREATE INDEX usage_alert_looks_due_at_idx ON usage_alert_looks (due_at) WHERE NOT is_on_clock;
CREATE INDEX usage_alert_looks_customer_key_idx ON usage_alert_looks (customer_key) WHERE is_on_clock;
COMMENT ON TABLE usage_alert_looks IS 'When the figures of customers are to be held against usage alerts again though nothing else happens; they are marked then';
COMMENT ON COLUMN usage_alert_looks.is_on_clock IS 'Whether the customer lives by a test clock';
COMMENT ON COLUMN usage_alert_looks.due_at IS 'In the customer''s own time: the next event that is dated ahead counts from then on';
ALTER TABLE usage_alert_looks SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
