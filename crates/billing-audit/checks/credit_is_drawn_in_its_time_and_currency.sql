SELECT credit.id::text AS subject,
    format('%s: effective %s to %s, in %s; drawn at %s for an invoice in %s', credit.amount, credit.effective_at, credit.expires_at,
        credit.currency_code, entry.at, invoice.currency_code) AS problem
FROM credit_entries entry
JOIN credits credit ON credit.customer_key = entry.customer_key AND credit.id = entry.credit_id
JOIN invoices invoice ON invoice.customer_key = entry.customer_key AND invoice.id = entry.invoice_id
WHERE entry.kind = 'drawdown' AND (entry.at < credit.effective_at OR invoice.currency_code <> credit.currency_code)
