-- Metrics that are a query of the organization's own.

ALTER TABLE metrics
    DROP CONSTRAINT metrics_metric_type_check,
    ADD COLUMN custom_sql text,
    ADD CONSTRAINT metrics_metric_type_check CHECK (metric_type IN ('counter', 'gauge', 'rate', 'custom')),
    ADD CONSTRAINT metrics_custom_sql_check CHECK ((metric_type = 'custom') = (custom_sql IS NOT NULL));
COMMENT ON COLUMN metrics.custom_sql IS 'Of a custom metric: its query as it was sent; it is compiled, and never run as it stands';
