-- A credit note is the sum of its lines; of a line of an invoice that stands, notes that stand take at most what it charged, with at
-- most its tax, and all of its tax with all of it.
WITH taken AS (
    SELECT note.customer_key, credited.invoice_id, credited.position, sum(credited.amount) AS amount, sum(credited.tax) AS tax,
        sum(credited.base) AS base
    FROM credit_notes note
    JOIN credit_note_lines credited ON credited.customer_key = note.customer_key AND credited.credit_note_id = note.id
    WHERE note.voided_at IS NULL
    GROUP BY 1, 2, 3
)
SELECT note.number AS subject, format('of %s, its lines add up to %s', note.amount, coalesce(sum(credited.amount), 0)) AS problem
FROM credit_notes note
LEFT JOIN credit_note_lines credited ON credited.customer_key = note.customer_key AND credited.credit_note_id = note.id
    AND credited.invoice_id = note.invoice_id
GROUP BY note.customer_key, note.id, note.number, note.amount
HAVING note.amount IS DISTINCT FROM sum(credited.amount)
UNION ALL
SELECT invoice.number, format('credit notes took %s with %s of tax of line %s, %s: %s with %s', taken.amount, taken.tax, taken.position,
    invoice.payment_status, line.amount, line_tax.amount)
FROM taken
JOIN invoices invoice ON invoice.customer_key = taken.customer_key AND invoice.id = taken.invoice_id
LEFT JOIN invoice_lines line
    ON line.customer_key = taken.customer_key AND line.invoice_id = taken.invoice_id AND line.position = taken.position
CROSS JOIN LATERAL (
    SELECT coalesce(sum((adjustment ->> 'amount')::numeric), 0) AS amount
    FROM jsonb_array_elements(line.adjustments) adjustment
    WHERE adjustment -> 'basis' ->> 'kind' = 'sales_tax'
) line_tax
WHERE line.amount IS NULL OR taken.amount > line.amount OR taken.tax > line_tax.amount OR invoice.payment_status = 'voided'
    OR (taken.amount = line.amount AND (taken.tax, taken.base) <> (line_tax.amount, line.base))
    OR line.trace ->> 'kind' IN ('credit_purchase', 'credit_granted')
