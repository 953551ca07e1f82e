ALTER TABLE usage_alert_marks DROP COLUMN written_at;
