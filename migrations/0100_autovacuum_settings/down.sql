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
    EXECUTE format(
        'ALTER TABLE events ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition, month_start, month_end
    );
END
$$;
DROP FUNCTION set_events_partition_storage;

DO $$
DECLARE
    relation regclass;
BEGIN
    FOR relation IN
        SELECT oid FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND array_to_string(reloptions, ',') LIKE '%autovacuum\_%'
    LOOP
        EXECUTE format('ALTER TABLE %s RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
            autovacuum_vacuum_insert_scale_factor, autovacuum_vacuum_cost_delay, autovacuum_analyze_scale_factor,
            autovacuum_analyze_threshold)', relation);
    END LOOP;
END
$$;
