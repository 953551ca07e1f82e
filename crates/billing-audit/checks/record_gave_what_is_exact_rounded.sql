-- The exact price is stored with up to 60 decimals, as the service's one division leaves it. An amount is rounded by its first
-- 40 (docs/pricing.md, "Rounding"), so that what a quotient lost in its last one does not move it off a half.
SELECT record.id::text AS subject, format('gave %s of %s', record.billed_given, record.billed_exact) AS problem
FROM billing_records record
JOIN plan_versions version ON version.organization_id = record.organization_id AND version.id = record.plan_version_id
JOIN LATERAL (
    SELECT invoice.currency_decimals
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    WHERE line.customer_key = record.customer_key AND line.record_id = record.id
    LIMIT 1
) shown ON true
WHERE round(round(record.billed_exact, 40), shown.currency_decimals) <> record.billed_given
