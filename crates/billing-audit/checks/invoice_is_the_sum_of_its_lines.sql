SELECT invoice.number AS subject,
    format('says %s in %s lines, its lines add up to %s in %s', invoice.amount, invoice.line_count, lines.amount, lines.count) AS problem
FROM invoices invoice
CROSS JOIN LATERAL (
    SELECT count(*) AS count, coalesce(sum(line.amount), 0) AS amount
    FROM invoice_lines line
    WHERE line.customer_key = invoice.customer_key AND line.invoice_id = invoice.id
) lines
WHERE lines.amount <> invoice.amount OR lines.count <> invoice.line_count
