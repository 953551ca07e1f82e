SELECT invoice.number AS subject, format('line %s grants a credit of %s that is not there', line.position, line.amount) AS problem
FROM invoice_lines line
JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
LEFT JOIN credits credit
    ON credit.customer_key = line.customer_key
        AND credit.id = regexp_replace(line.trace ->> 'credit_id', '^[a-z]+_', '')::uuid
WHERE line.trace ->> 'kind' = 'credit_granted'
    AND (credit.amount IS DISTINCT FROM line.amount OR credit.currency_code IS DISTINCT FROM invoice.currency_code)
