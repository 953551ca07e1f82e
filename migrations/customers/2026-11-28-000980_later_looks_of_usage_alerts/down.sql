DROP TABLE usage_alert_looks;
ALTER TABLE usage_alert_marks DROP COLUMN may_lie_ahead;
COMMENT ON COLUMN usage_alert_marks.at IS 'When events were stored, in the customer''s own time; null: something else has changed';
