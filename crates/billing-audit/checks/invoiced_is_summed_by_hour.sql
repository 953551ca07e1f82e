-- What was invoiced within an hour, added up again: without what was voided, and without customers under a test clock, whose money is none.
WITH invoiced AS (
    SELECT invoice.organization_id, date_trunc('hour', invoice.issued_at, 'UTC') AS hour, invoice.currency_code,
        sum(invoice.amount) AS amount
    FROM invoices invoice
    JOIN customers customer ON customer.customer_key = invoice.customer_key
    WHERE invoice.payment_status <> 'voided' AND customer.test_clock_id IS NULL
    GROUP BY 1, 2, 3
), summed AS (
    SELECT organization_id, hour, currency_code, sum(amount) AS amount
    FROM invoiced_hours
    GROUP BY 1, 2, 3
)
SELECT organization_id::text AS subject,
    format('%s %s were invoiced from %s on for an hour, and the sums say %s', coalesce(invoiced.amount, 0), currency_code, hour, coalesce(summed.amount, 0)) AS problem
FROM invoiced
FULL JOIN summed USING (organization_id, hour, currency_code)
WHERE coalesce(invoiced.amount, 0) <> coalesce(summed.amount, 0)
