WITH wanted AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::jsonb[], $5::jsonb[], $6::text[], $7::text[], $8::text[],
        $9::smallint[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::bigint[], $14::numeric[],
        $15::uuid[]
    ) WITH ORDINALITY
        AS wanted (customer_key, id, prefix, billed_to, seller, currency_code, currency_name, currency_symbol,
            currency_decimals, issued_at, due_at, payment_status, line_count, amount, replaces, ordinal)
), counter AS (
    INSERT INTO invoice_counters AS counter (organization_id, last_sequence)
    SELECT $16::uuid, count(*) FROM wanted
    ON CONFLICT (organization_id) DO UPDATE SET last_sequence = counter.last_sequence + excluded.last_sequence
    RETURNING organization_id, last_sequence
), issued AS (
    INSERT INTO invoices (customer_key, id, organization_id, number, billed_to, seller, currency_code,
        currency_name, currency_symbol, currency_decimals, issued_at, due_at, payment_status, line_count, amount,
        replaces)
    SELECT wanted.customer_key, wanted.id, counter.organization_id,
        wanted.prefix || lpad(sequence, greatest($17::integer, length(sequence)), '0'),
        wanted.billed_to, wanted.seller, wanted.currency_code, wanted.currency_name, wanted.currency_symbol,
        wanted.currency_decimals, wanted.issued_at, wanted.due_at, wanted.payment_status, wanted.line_count,
        wanted.amount, wanted.replaces
    FROM counter CROSS JOIN wanted
    CROSS JOIN LATERAL (
        SELECT (counter.last_sequence - (SELECT count(*) FROM wanted) + wanted.ordinal)::text AS sequence
    ) place
    RETURNING customer_key, id, organization_id, number
), numbered AS (
    INSERT INTO invoice_numbers (organization_id, number, customer_key, invoice_id)
    SELECT organization_id, number, customer_key, id FROM issued
), lines AS (
    INSERT INTO invoice_lines (customer_key, invoice_id, organization_id, position, name, start_at, end_at, quantity,
        billing_type, subscription_id, record_id, plan, filters, base, adjustments, amount, trace)
    SELECT issued.customer_key, issued.id, issued.organization_id, line.position, line.name, line.start_at,
        line.end_at, line.quantity, line.billing_type, line.subscription_id, line.record_id, line.plan, line.filters,
        line.base, line.adjustments, line.amount, line.trace
    FROM issued JOIN unnest(
        $18::uuid[], $19::bigint[], $20::text[], $21::timestamptz[], $22::timestamptz[], $23::numeric[], $24::text[],
        $25::uuid[], $26::uuid[], $27::jsonb[], $28::text[], $29::numeric[], $30::jsonb[], $31::numeric[], $32::jsonb[]
    ) AS line (invoice_id, position, name, start_at, end_at, quantity, billing_type, subscription_id, record_id,
            plan, filters, base, adjustments, amount, trace)
        ON line.invoice_id = issued.id
)
SELECT id, number FROM issued
