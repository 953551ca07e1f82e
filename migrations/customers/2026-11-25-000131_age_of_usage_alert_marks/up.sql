-- How long a mark has been waiting: those from before are of no age, and soon looked at.

ALTER TABLE usage_alert_marks ADD COLUMN written_at timestamptz;
ALTER TABLE usage_alert_marks ALTER COLUMN written_at SET DEFAULT clock_timestamp();
COMMENT ON COLUMN usage_alert_marks.written_at IS 'Real time';
