DROP TABLE usage_alert_marks, usage_alert_firings;
