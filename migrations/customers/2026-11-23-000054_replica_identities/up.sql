-- A row of events is told by its month's unique index, where rows are sent elsewhere by logical replication: a month has no
-- primary key.
-- Months are made here and nowhere else. CREATE TABLE .. PARTITION OF would wait for every running insert; ATTACH does
-- not, and an empty table has nothing to be checked.
CREATE OR REPLACE FUNCTION create_events_partition(month_start timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    month_end timestamptz := (month_start AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
    partition text := to_char(month_start AT TIME ZONE 'UTC', '"events_"YYYY"_"MM');
BEGIN
    -- Lock class 4 is that of partitions.
    PERFORM pg_advisory_xact_lock(4, hashtext(current_schema() || '.' || partition));
    IF to_regclass(format('%I.%I', current_schema(), partition)) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE events INCLUDING DEFAULTS)', partition);
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (id_hash, customer_key)', partition || '_id_hash_key', partition);
    EXECUTE format('CREATE INDEX %I ON %I (customer_key, time_created)', partition || '_customer_key_idx', partition);
    EXECUTE format('ALTER TABLE %I REPLICA IDENTITY USING INDEX %I', partition, partition || '_id_hash_key');
    EXECUTE format('COMMENT ON TABLE %I IS %L', partition, 'Events of one UTC month');
    PERFORM set_events_partition_storage(partition::regclass);
    EXECUTE format(
        'ALTER TABLE events ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition, month_start, month_end
    );
END
$$;

DO $$
DECLARE
    month regclass;
    key regclass;
BEGIN
    FOR month, key IN
        SELECT inhrelid, index.indexrelid FROM pg_inherits
        JOIN pg_index index ON index.indrelid = inhrelid AND index.indisunique
        WHERE inhparent = 'events'::regclass
    LOOP
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY USING INDEX %I', month, (SELECT relname FROM pg_class WHERE oid = key));
    END LOOP;
END
$$;
