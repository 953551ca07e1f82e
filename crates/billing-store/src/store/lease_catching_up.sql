UPDATE billing_due
SET claimed_until = clock_timestamp() + make_interval(secs => $1::double precision / 1000)
WHERE customer_key = ANY (ARRAY(
    SELECT customer_key FROM billing_due
    WHERE customer_key IN (
        SELECT DISTINCT ON (customer.organization_id) customer.customer_key
        FROM customers customer
        JOIN billing_due due USING (customer_key)
        WHERE customer.catching_up
            AND due.due_at <= least(statement_timestamp(), $2::timestamptz)
            AND (due.claimed_until IS NULL OR due.claimed_until <= clock_timestamp())
            AND NOT due.is_parked
            AND due.organization_id <> ALL ($3::uuid[])
        ORDER BY customer.organization_id, due.due_at
    )
        AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())
    ORDER BY random()
    LIMIT $4::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING organization_id, customer_key, failures
