DROP TRIGGER usage_alert_marks_headroom ON usage_alert_marks;
DROP FUNCTION end_usage_alert_headroom;
DROP TABLE usage_alert_headroom;
