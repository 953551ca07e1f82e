UPDATE billing_due
SET claimed_until = statement_timestamp() + make_interval(secs => $1::double precision / 1000)
WHERE customer_key = ANY (ARRAY(
    SELECT customer_key FROM billing_due
    WHERE due_at <= least(statement_timestamp(), $2::timestamptz)
        AND (claimed_until IS NULL OR claimed_until <= statement_timestamp())
        AND NOT is_parked
        AND (waits_for_tax_until IS NULL OR waits_for_tax_until <= statement_timestamp() OR organization_id <> ALL ($3::uuid[]))
        AND customer_key <> ALL (ARRAY(SELECT customer_key FROM customers WHERE catching_up))
    ORDER BY due_at
    LIMIT $4::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING organization_id, customer_key, failures
