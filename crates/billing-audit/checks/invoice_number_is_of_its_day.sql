SELECT invoice.number AS subject, format('was issued at %s', invoice.issued_at) AS problem
FROM invoices invoice
LEFT JOIN invoice_numbers known
    ON known.organization_id = invoice.organization_id AND known.number = invoice.number
        AND known.customer_key = invoice.customer_key AND known.invoice_id = invoice.id
WHERE split_part(invoice.number, '-', 1) <> to_char(invoice.issued_at AT TIME ZONE 'UTC', 'YYMMDD') OR known.number IS NULL
UNION ALL
SELECT known.number, 'is taken by no invoice'
FROM invoice_numbers known
LEFT JOIN invoices invoice ON invoice.customer_key = known.customer_key AND invoice.id = known.invoice_id
WHERE invoice.number IS DISTINCT FROM known.number
