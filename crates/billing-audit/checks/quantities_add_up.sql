-- The units on a record's usage lines are the units that its last one stands on; what a switch handed on comes off again.
SELECT record.id::text AS subject, format('billed %s units, its lines show %s', record.billed_quantity, shown.quantity) AS problem
FROM billing_records record
CROSS JOIN LATERAL (
    SELECT coalesce(sum(line.quantity), 0) AS quantity
    FROM invoice_lines line
    WHERE line.customer_key = record.customer_key AND line.record_id = record.id AND line.trace ->> 'kind' IN ('usage_charge', 'usage_handed_on')
) shown
WHERE record.component_id IS NOT NULL AND record.billed_quantity <> shown.quantity
