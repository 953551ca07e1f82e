ALTER TABLE metrics
    DROP CONSTRAINT metrics_metric_type_check,
    DROP COLUMN custom_sql,
    ADD CONSTRAINT metrics_metric_type_check CHECK (metric_type IN ('counter', 'gauge', 'rate'));
