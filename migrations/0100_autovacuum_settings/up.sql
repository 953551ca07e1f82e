-- When tables are vacuumed and analyzed. By the usual settings after a fifth and a tenth of their rows have changed: a table of
-- ten million rows is then planned by what it was a million rows ago, and one of a few hundred rows that change a thousand times
-- a second has long grown to many times its size.

-- Many rows, ever more of them.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['usage_rollup', 'invoices', 'invoice_lines', 'invoice_numbers', 'invoicing_counts', 'credits',
        'credit_entries', 'customers', 'customer_emails', 'subscriptions', 'billing_records', 'idempotency_keys', 'event_names']
    LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
            autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000)', name);
    END LOOP;
    -- Few rows, or a row for each customer, that are written again and again.
    FOREACH name IN ARRAY ARRAY['billing_due', 'open_hours', 'rollup_marks', 'subscription_marks', 'catalog_stamps', 'ingest_epochs',
        'invoice_counters', 'metric_rollups']
    LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
            autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0)', name);
    END LOOP;
END
$$;

CREATE FUNCTION set_events_partition_storage(partition regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Events are added and never changed: what a vacuum is for here is the map of pages that all may see.
    EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.02,
        autovacuum_analyze_threshold = 5000)', partition);
END
$$;
COMMENT ON FUNCTION set_events_partition_storage IS 'Sets when a month of events is vacuumed and analyzed: it inherits no such settings';

SELECT set_events_partition_storage(inhrelid) FROM pg_inherits WHERE inhparent = 'events'::regclass;

CREATE OR REPLACE FUNCTION create_events_partition(month_start timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    month_end timestamptz := (month_start AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
    partition text := to_char(month_start AT TIME ZONE 'UTC', '"events_"YYYY"_"MM');
BEGIN
    -- Lock class 4 is that of partitions.
    PERFORM pg_advisory_xact_lock(4, hashtext(partition));
    IF to_regclass(partition) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE events INCLUDING DEFAULTS)', partition);
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (id_hash, customer_key)', partition || '_id_hash_key', partition);
    EXECUTE format('CREATE INDEX %I ON %I (customer_key, time_created)', partition || '_customer_key_idx', partition);
    EXECUTE format('COMMENT ON TABLE %I IS %L', partition, 'Events of one UTC month');
    PERFORM set_events_partition_storage(partition::regclass);
    EXECUTE format(
        'ALTER TABLE events ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition, month_start, month_end
    );
END
$$;
