SELECT invoice.number AS subject, format('line %s has parts of a minor unit: %s, base %s', line.position, line.amount, line.base) AS problem
FROM invoice_lines line
JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
WHERE round(line.amount, invoice.currency_decimals) <> line.amount OR round(line.base, invoice.currency_decimals) <> line.base
