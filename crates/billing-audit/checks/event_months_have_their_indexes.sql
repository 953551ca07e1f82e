SELECT month.relname AS subject, 'lacks an index' AS problem
FROM pg_inherits inherits
JOIN pg_class month ON month.oid = inherits.inhrelid
WHERE inherits.inhparent IN (SELECT oid FROM pg_class WHERE relname = 'events' AND relkind = 'p')
    AND (
        NOT EXISTS (
            SELECT FROM pg_index month_index
            WHERE month_index.indrelid = month.oid AND month_index.indisunique AND month_index.indisvalid
                AND pg_get_indexdef(month_index.indexrelid) LIKE '%(id_hash, customer_key)'
        )
        OR NOT EXISTS (
            SELECT FROM pg_index month_index
            WHERE month_index.indrelid = month.oid AND month_index.indisvalid
                AND pg_get_indexdef(month_index.indexrelid) LIKE '%(customer_key, time_created)'
        )
    )
