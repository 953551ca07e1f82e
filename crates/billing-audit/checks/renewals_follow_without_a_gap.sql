SELECT ended.id::text AS subject, format('was renewed at %s, but nothing begins then', ended.end_at) AS problem
FROM subscriptions ended
WHERE ended.is_renewed
    AND NOT EXISTS (
        SELECT FROM subscriptions renewal
        WHERE renewal.customer_key = ended.customer_key AND NOT renewal.is_new AND renewal.start_at = ended.end_at
            AND renewal.filters = ended.filters AND renewal.id <> ended.id
    )
