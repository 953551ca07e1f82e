-- Each charge is on invoices for exactly what its record remembers: billed once, neither twice nor never. What a voided
-- invoice charged counts, since it is not charged again; what it took back does not, since it is owed again.
SELECT record.id::text AS subject,
    format('gave %s, its lines show %s', record.billed_given + coalesce((record.prepaid -> 'billed' ->> 'given')::numeric, 0), lines.base) AS problem
FROM billing_records record
CROSS JOIN LATERAL (
    SELECT coalesce(sum(line.base), 0) AS base
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    WHERE line.customer_key = record.customer_key AND line.record_id = record.id
        AND NOT (invoice.payment_status = 'voided' AND (line.amount < 0 OR (line.amount = 0 AND line.base < 0)))
) lines
WHERE record.billed_given + coalesce((record.prepaid -> 'billed' ->> 'given')::numeric, 0) <> lines.base
