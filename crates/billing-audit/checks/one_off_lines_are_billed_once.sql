-- What is charged once waits on its customer or is on one invoice, voided or not, beside those that another was issued for; what that one
-- billed is on the other. It comes to its quantity at its price, rounded, and has the tax of that alone. Nobody who was deleted has any
-- that waits.
WITH waiting AS (
    SELECT customer.customer_key, customer.customer_id, customer.deleted_at, waits ->> 'id' AS id,
        (waits ->> 'amount')::numeric AS amount, (waits ->> 'quantity')::numeric * (waits ->> 'unit_amount')::numeric AS exact
    FROM customers customer
    CROSS JOIN LATERAL jsonb_array_elements(customer.one_off_lines) waits
), billed AS (
    SELECT line.customer_key, line.invoice_id, line.trace ->> 'one_off_line_id' AS id, invoice.number, invoice.replaced_by,
        line.base, line.amount, line.subscription_id, line.record_id, invoice.currency_decimals AS decimals,
        (line.trace ->> 'quantity')::numeric * (line.trace ->> 'unit_amount')::numeric AS exact,
        (line.trace ->> 'is_taxed')::boolean AS is_taxed, taxed.amount AS tax, taxed.due AS tax_due
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    CROSS JOIN LATERAL (
        SELECT coalesce(sum((adjustment ->> 'amount')::numeric), 0) AS amount,
            coalesce(sum(round((adjustment -> 'basis' ->> 'rate')::numeric * line.base / 100, invoice.currency_decimals)), 0) AS due
        FROM jsonb_array_elements(line.adjustments) adjustment
    ) taxed
    WHERE line.trace ->> 'kind' = 'one_off'
)
SELECT id AS subject, format('on %s invoices', count(*)) AS problem
FROM billed
WHERE replaced_by IS NULL
GROUP BY customer_key, id
HAVING count(*) > 1
UNION ALL
SELECT waiting.id, format('it waits, and is on invoice %s', billed.number)
FROM waiting
JOIN billed USING (customer_key, id)
UNION ALL
SELECT id, format('it waits twice for %s', customer_id) FROM waiting GROUP BY customer_key, customer_id, id HAVING count(*) > 1
UNION ALL
SELECT id, format('it waits for %s, who was deleted', customer_id) FROM waiting WHERE deleted_at IS NOT NULL
UNION ALL
SELECT id, format('it waits with %s, its quantity at its price comes to %s', amount, exact)
FROM waiting
WHERE amount <= 0 OR amount <> round(coalesce(exact, amount), scale(trim_scale(amount)))
UNION ALL
SELECT id, format('billed with %s, its quantity at its price comes to %s', base, exact)
FROM billed
WHERE base <= 0 OR base <> round(coalesce(exact, base), decimals) OR subscription_id IS NOT NULL OR record_id IS NOT NULL
UNION ALL
SELECT id, format('its tax is %s, of the line alone it is %s', tax, tax_due)
FROM billed
WHERE tax <> tax_due OR amount <> base + tax OR (tax <> 0 AND NOT is_taxed)
UNION ALL
SELECT billed.id, format('invoice %s has it, the one that was issued anew has not', billed.number)
FROM billed
WHERE billed.replaced_by IS NOT NULL AND NOT EXISTS (
    SELECT FROM billed anew
    WHERE anew.customer_key = billed.customer_key AND anew.invoice_id = billed.replaced_by AND anew.id = billed.id AND anew.base = billed.base
)
