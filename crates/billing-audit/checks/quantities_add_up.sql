-- The units on a record's usage lines are the units that its last one stands on; what a switch handed on comes off again. Of an
-- invoice that was issued anew nothing counts.
SELECT record.id::text AS subject, format('billed %s units, its lines show %s', record.billed_quantity, shown.quantity) AS problem
FROM billing_records record
CROSS JOIN LATERAL (
    SELECT coalesce(sum(line.quantity), 0) AS quantity
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    WHERE invoice.replaced_by IS NULL AND line.customer_key = record.customer_key AND line.record_id = record.id AND line.trace ->> 'kind' IN ('usage_charge', 'usage_handed_on')
) shown
WHERE record.component_id IS NOT NULL AND record.billed_quantity <> shown.quantity
