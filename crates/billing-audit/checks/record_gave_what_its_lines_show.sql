-- Each charge is on invoices for exactly what its record remembers: billed once, neither twice nor never. What a voided
-- invoice charged counts, since it is not charged again; what it took back does not, since it is owed again. What credit notes gave back for
-- corrected events comes off, as it would on a line. Of an invoice that was issued anew nothing counts: its lines are on that one.
SELECT record.id::text AS subject,
    format('gave %s, its lines show %s', record.billed_given + coalesce((record.prepaid -> 'billed' ->> 'given')::numeric, 0), lines.base) AS problem
FROM billing_records record
CROSS JOIN LATERAL (
    SELECT coalesce(sum(line.base - coalesce(corrected.base, 0)), 0) AS base
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    LEFT JOIN LATERAL (
        SELECT sum(credited.base) AS base
        FROM credit_note_lines credited
        JOIN credit_notes note ON note.customer_key = credited.customer_key AND note.id = credited.credit_note_id
        WHERE credited.customer_key = line.customer_key AND credited.invoice_id = line.invoice_id AND credited.position = line.position
            AND note.is_correction AND note.voided_at IS NULL
    ) corrected ON true
    WHERE line.customer_key = record.customer_key AND line.record_id = record.id AND invoice.replaced_by IS NULL
        AND NOT (invoice.payment_status = 'voided' AND (line.amount < 0 OR (line.amount = 0 AND line.base < 0)))
) lines
WHERE record.billed_given + coalesce((record.prepaid -> 'billed' ->> 'given')::numeric, 0) <> lines.base
