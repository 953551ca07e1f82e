-- What was drawn for an invoice is what its line of applied credits says, and never more than was due.
SELECT invoice.number AS subject,
    format('%s of credits on its lines, %s in ledgers, %s due', applied.amount, drawn.amount, applied.due) AS problem
FROM invoices invoice
CROSS JOIN LATERAL (
    SELECT coalesce(-sum(line.amount) FILTER (WHERE line.trace ->> 'kind' = 'credit_applied'), 0) AS amount,
        coalesce(sum(line.amount) FILTER (WHERE line.trace ->> 'kind' <> 'credit_applied'), 0) AS due
    FROM invoice_lines line
    WHERE line.customer_key = invoice.customer_key AND line.invoice_id = invoice.id
) applied
CROSS JOIN LATERAL (
    SELECT coalesce(sum(entry.amount), 0) AS amount
    FROM credit_entries entry
    WHERE entry.customer_key = invoice.customer_key AND entry.invoice_id = invoice.id AND entry.kind = 'drawdown'
) drawn
WHERE applied.amount <> drawn.amount OR (drawn.amount > 0 AND drawn.amount > applied.due)
