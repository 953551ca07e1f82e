DROP TABLE usage_alerts;
