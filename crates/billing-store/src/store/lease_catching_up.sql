UPDATE billing_due
SET claimed_until = statement_timestamp() + make_interval(secs => $1::double precision / 1000)
WHERE customer_key = ANY (ARRAY(
    SELECT customer_key FROM billing_due
    WHERE customer_key = ANY ($2::uuid[])
        AND (claimed_until IS NULL OR claimed_until <= statement_timestamp())
        AND NOT is_parked
    ORDER BY md5(customer_key::text || statement_timestamp())
    LIMIT $3::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING organization_id, customer_key, failures
