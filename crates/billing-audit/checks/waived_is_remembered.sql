-- What voided invoices and standing credit notes, but those that give back what corrected events made too much, waived of a charge, and of the tax of a subscription's period, is what its billing
-- record and the subscription remember: it is not charged again, and does not come back a second time. An invoice that was issued anew waived
-- nothing.
WITH line AS (
    SELECT line.customer_key, line.record_id, line.subscription_id, line.base, invoice.payment_status, taxed.amount AS tax,
        coalesce(credited.base, 0) AS credited_base, coalesce(credited.tax, 0) AS credited_tax,
        line.amount > 0 OR (line.amount = 0 AND line.base > 0) AS charges
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    CROSS JOIN LATERAL (
        SELECT coalesce(sum((adjustment ->> 'amount')::numeric), 0) AS amount
        FROM jsonb_array_elements(line.adjustments) adjustment
        WHERE adjustment -> 'basis' ->> 'kind' = 'sales_tax'
    ) taxed
    LEFT JOIN (
        SELECT credited.customer_key, credited.invoice_id, credited.position, sum(credited.base) AS base, sum(credited.tax) AS tax
        FROM credit_note_lines credited
        JOIN credit_notes note ON note.customer_key = credited.customer_key AND note.id = credited.credit_note_id
        WHERE note.voided_at IS NULL AND NOT note.is_correction
        GROUP BY 1, 2, 3
    ) credited ON credited.customer_key = line.customer_key AND credited.invoice_id = line.invoice_id AND credited.position = line.position
    WHERE line.subscription_id IS NOT NULL AND invoice.replaced_by IS NULL
)
SELECT record.id::text AS subject, format('remembers %s as waived, its lines say %s', remembered.amount, waived.amount) AS problem
FROM billing_records record
CROSS JOIN LATERAL (
    SELECT record.billed_forgiven + coalesce((record.prepaid -> 'billed' ->> 'forgiven')::numeric, 0) AS amount
) remembered
CROSS JOIN LATERAL (
    SELECT coalesce(sum(CASE WHEN line.payment_status = 'voided' AND line.charges THEN line.base ELSE line.credited_base END), 0) AS amount
    FROM line
    WHERE line.customer_key = record.customer_key AND line.record_id = record.id AND line.base > 0
) waived
WHERE remembered.amount <> waived.amount
UNION ALL
SELECT subscription.id::text, format('remembers %s of tax as waived, its lines say %s', remembered.tax, waived.tax)
FROM subscriptions subscription
CROSS JOIN LATERAL (
    SELECT coalesce((subscription.settled_forgiven ->> 'tax')::numeric, 0) AS tax
) remembered
CROSS JOIN LATERAL (
    SELECT coalesce(sum(CASE WHEN line.payment_status = 'voided' AND line.charges THEN line.tax ELSE line.credited_tax END), 0) AS tax
    FROM line
    WHERE line.customer_key = subscription.customer_key AND line.subscription_id = subscription.id
) waived
WHERE remembered.tax <> waived.tax
