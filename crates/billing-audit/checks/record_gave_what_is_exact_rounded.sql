-- The exact price is stored with up to 60 decimals, as the service's one division leaves it. An amount is rounded by its first
-- 40 (docs/pricing.md, "Rounding"), so that what a quotient lost in its last one does not move it off a half. It is not less
-- than what voided invoices forgave and credit notes took back. What a voided invoice took back is owed again, and what a voided note
-- held back comes, with the next invoice. What a credit note gave back for corrected events is at most that much less than the price that was last
-- billed.
SELECT record.id::text AS subject, format('gave %s of %s, forgiven %s', record.billed_given, record.billed_exact, record.billed_forgiven) AS problem
FROM billing_records record
JOIN plan_versions version ON version.organization_id = record.organization_id AND version.id = record.plan_version_id
JOIN LATERAL (
    SELECT invoice.currency_decimals, bool_or(invoice.payment_status = 'voided' AND line.base < 0 OR note.voided_at IS NOT NULL) AS is_owed_again,
        coalesce(sum(credited.base) FILTER (WHERE note.is_correction AND note.voided_at IS NULL), 0) AS corrected
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    LEFT JOIN credit_note_lines credited
        ON credited.customer_key = line.customer_key AND credited.invoice_id = line.invoice_id AND credited.position = line.position
    LEFT JOIN credit_notes note ON note.customer_key = credited.customer_key AND note.id = credited.credit_note_id
    WHERE line.customer_key = record.customer_key AND line.record_id = record.id
    GROUP BY invoice.currency_decimals
    LIMIT 1
) shown ON true
CROSS JOIN LATERAL (
    SELECT round(round(record.billed_exact, 40), shown.currency_decimals) AS exact
) rounded
CROSS JOIN LATERAL (
    SELECT CASE WHEN record.billed_forgiven = 0 THEN exact ELSE greatest(exact, record.billed_forgiven) END AS due
) floored
WHERE record.billed_given NOT BETWEEN floored.due - shown.corrected AND floored.due AND NOT (shown.is_owed_again AND record.billed_given > floored.due)
