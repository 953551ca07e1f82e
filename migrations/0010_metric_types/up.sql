-- Gauges and rates beside counters.

ALTER TABLE metrics
    ADD COLUMN metric_type text NOT NULL DEFAULT 'counter',
    ADD COLUMN event_type text CHECK (event_type IN ('total', 'delta')),
    ADD COLUMN granularity text
        CHECK (granularity IN ('seconds', 'minutes', 'hours', 'days', 'months', 'quarters', 'years', 'total')),
    ADD COLUMN proration text
        CHECK (proration IN ('seconds', 'minutes', 'hours', 'days', 'months', 'quarters', 'years', 'total')),
    ADD CONSTRAINT metrics_metric_type_check CHECK (metric_type IN ('counter', 'gauge', 'rate')),
    ADD CONSTRAINT metrics_gauge_check CHECK (
        (metric_type = 'gauge') = (event_type IS NOT NULL) AND (metric_type = 'gauge') = (proration IS NOT NULL)
    ),
    ADD CONSTRAINT metrics_granularity_needed_check
        CHECK (metric_type NOT IN ('gauge', 'rate') OR granularity IS NOT NULL);
ALTER TABLE metrics ALTER COLUMN metric_type DROP DEFAULT;
COMMENT ON COLUMN metrics.metric_type IS 'Whether events are counted, set or move a level, or are counted in a sliding window';
COMMENT ON COLUMN metrics.event_type IS 'Of a gauge: whether the property is the new level or by how much it moves';
COMMENT ON COLUMN metrics.granularity IS 'Of a gauge: what one unit is per; of a rate: its window';
COMMENT ON COLUMN metrics.proration IS 'Of a gauge: the buckets it is weighed by; total: none';
