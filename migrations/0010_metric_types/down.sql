-- What a gauge or a rate measures cannot be said without these columns; nothing that counts may become wrong.
DO $$
BEGIN
    IF EXISTS (SELECT FROM metrics WHERE metric_type <> 'counter') THEN
        RAISE EXCEPTION 'there are metrics that are not counters';
    END IF;
END
$$;

ALTER TABLE metrics
    DROP CONSTRAINT metrics_granularity_needed_check,
    DROP CONSTRAINT metrics_gauge_check,
    DROP CONSTRAINT metrics_metric_type_check,
    DROP COLUMN proration,
    DROP COLUMN granularity,
    DROP COLUMN event_type,
    DROP COLUMN metric_type;
