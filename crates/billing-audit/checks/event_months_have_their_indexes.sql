SELECT month.relname AS subject, 'lacks an index' AS problem
FROM pg_inherits inherits
JOIN pg_class month ON month.oid = inherits.inhrelid
WHERE inherits.inhparent = 'events'::regclass
    AND (
        NOT EXISTS (
            SELECT FROM pg_index own
            WHERE own.indrelid = month.oid AND own.indisunique AND own.indisvalid
                AND pg_get_indexdef(own.indexrelid) LIKE '%(id_hash, customer_key)'
        )
        OR NOT EXISTS (
            SELECT FROM pg_index own
            WHERE own.indrelid = month.oid AND own.indisvalid
                AND pg_get_indexdef(own.indexrelid) LIKE '%(customer_key, time_created)'
        )
    )
