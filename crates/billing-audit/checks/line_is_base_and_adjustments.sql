SELECT invoice.number AS subject,
    format('line %s is %s, its base is %s and its adjustments are %s', line.position, line.amount, line.base, added.amount) AS problem
FROM invoice_lines line
JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
CROSS JOIN LATERAL (
    SELECT coalesce(sum((adjustment ->> 'amount')::numeric), 0) AS amount FROM jsonb_array_elements(line.adjustments) adjustment
) added
WHERE line.amount <> line.base + added.amount
