WITH wanted AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::jsonb[], $5::jsonb[], $6::text[], $7::text[], $8::text[],
        $9::smallint[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::bigint[], $14::numeric[],
        $15::uuid[]
    ) WITH ORDINALITY
        AS wanted (customer_key, id, number, billed_to, seller, currency_code, currency_name, currency_symbol,
            currency_decimals, issued_at, due_at, payment_status, line_count, amount, replaces, ordinal)
), issued AS (
    INSERT INTO invoices (customer_key, id, organization_id, number, billed_to, seller, currency_code,
        currency_name, currency_symbol, currency_decimals, issued_at, due_at, payment_status, line_count, amount,
        replaces)
    SELECT wanted.customer_key, wanted.id, $16::uuid, wanted.number,
        wanted.billed_to, wanted.seller, wanted.currency_code, wanted.currency_name, wanted.currency_symbol,
        wanted.currency_decimals, wanted.issued_at, wanted.due_at, wanted.payment_status, wanted.line_count,
        wanted.amount, wanted.replaces
    FROM wanted ORDER BY wanted.ordinal
    RETURNING customer_key, id, organization_id, number
), lines AS (
    INSERT INTO invoice_lines (customer_key, invoice_id, organization_id, position, name, start_at, end_at, quantity,
        billing_type, subscription_id, record_id, plan, filters, base, adjustments, amount, trace)
    SELECT issued.customer_key, issued.id, issued.organization_id, line.position, line.name, line.start_at,
        line.end_at, line.quantity, line.billing_type, line.subscription_id, line.record_id, line.plan, line.filters,
        line.base, line.adjustments, line.amount, line.trace
    FROM issued JOIN unnest(
        $17::uuid[], $18::bigint[], $19::text[], $20::timestamptz[], $21::timestamptz[], $22::numeric[], $23::text[],
        $24::uuid[], $25::uuid[], $26::jsonb[], $27::text[], $28::numeric[], $29::jsonb[], $30::numeric[], $31::jsonb[]
    ) AS line (invoice_id, position, name, start_at, end_at, quantity, billing_type, subscription_id, record_id,
            plan, filters, base, adjustments, amount, trace)
        ON line.invoice_id = issued.id
)
SELECT id, number FROM issued
