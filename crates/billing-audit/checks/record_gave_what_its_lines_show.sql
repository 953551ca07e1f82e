-- Each charge is on invoices for exactly what its record remembers: billed once, neither twice nor never.
SELECT record.id::text AS subject,
    format('gave %s, its lines show %s', record.billed_given + coalesce((record.prepaid -> 'billed' ->> 'given')::numeric, 0), lines.base) AS problem
FROM billing_records record
CROSS JOIN LATERAL (
    SELECT coalesce(sum(line.base), 0) AS base
    FROM invoice_lines line
    WHERE line.customer_key = record.customer_key AND line.record_id = record.id
) lines
WHERE record.billed_given + coalesce((record.prepaid -> 'billed' ->> 'given')::numeric, 0) <> lines.base
