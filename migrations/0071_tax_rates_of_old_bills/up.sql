-- Records that were billed before they remembered their tax rate learn it from their latest line: what is taken back of
-- them is taxed as what was billed. Only those that can still be billed or taken back are looked at.

UPDATE billing_records record
SET tax_rate = billed.rate, revision = record.revision + 1
FROM (
    SELECT DISTINCT ON (line.customer_key, line.record_id) line.customer_key, line.record_id,
        coalesce((
            SELECT (adjustment -> 'basis' ->> 'rate')::numeric FROM jsonb_array_elements(line.adjustments) adjustment
            WHERE adjustment -> 'basis' ->> 'kind' = 'sales_tax' LIMIT 1
        ), 0) AS rate
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    WHERE line.record_id IS NOT NULL AND line.base <> 0
    ORDER BY line.customer_key, line.record_id, invoice.issued_at DESC, invoice.number DESC, line.position DESC
) billed
WHERE billed.customer_key = record.customer_key AND billed.record_id = record.id
    AND record.tax_rate IS NULL
    AND (record.next_invoicing_at IS NOT NULL OR record.late_until IS NOT NULL);
