-- What comes back, also by credit notes, never exceeds what was billed and not voided: the base for each charge (of a record the prepaid units apart
-- from the usage), price with adjustment and tax for each period of a subscription, and what is taxed at each rate.
WITH standing AS (
    SELECT line.customer_key, line.record_id, line.subscription_id, line.base, line.trace ->> 'kind' = 'prepaid_usage_charge' AS is_prepaid,
        line.amount - taxed.amount AS adjusted, taxed.amount AS tax
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    CROSS JOIN LATERAL (
        SELECT coalesce(sum((adjustment ->> 'amount')::numeric), 0) AS amount
        FROM jsonb_array_elements(line.adjustments) adjustment
        WHERE adjustment -> 'basis' ->> 'kind' = 'sales_tax'
    ) taxed
    WHERE invoice.payment_status <> 'voided' AND line.subscription_id IS NOT NULL
    UNION ALL
    SELECT line.customer_key, line.record_id, line.subscription_id, -greatest(credited.base, 0), line.trace ->> 'kind' = 'prepaid_usage_charge',
        credited.tax - credited.amount, -credited.tax
    FROM credit_note_lines credited
    JOIN credit_notes note ON note.customer_key = credited.customer_key AND note.id = credited.credit_note_id
    JOIN invoice_lines line
        ON line.customer_key = credited.customer_key AND line.invoice_id = credited.invoice_id AND line.position = credited.position
    WHERE note.voided_at IS NULL AND line.subscription_id IS NOT NULL
),
taxable AS (
    SELECT line.customer_key, line.subscription_id, (tax.basis ->> 'rate')::numeric AS rate,
        (tax.basis ->> 'taxable')::numeric - coalesce(credited.net, 0) AS amount
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    CROSS JOIN LATERAL (
        SELECT adjustment -> 'basis' AS basis FROM jsonb_array_elements(line.adjustments) adjustment
        WHERE adjustment -> 'basis' ->> 'kind' = 'sales_tax'
    ) tax
    -- What a credit note can take of has one rate.
    CROSS JOIN LATERAL (
        SELECT sum(credited.amount - credited.tax) AS net
        FROM credit_note_lines credited
        JOIN credit_notes note ON note.customer_key = credited.customer_key AND note.id = credited.credit_note_id
        WHERE credited.customer_key = line.customer_key AND credited.invoice_id = line.invoice_id AND credited.position = line.position
            AND note.voided_at IS NULL
    ) credited
    WHERE invoice.payment_status <> 'voided' AND line.subscription_id IS NOT NULL
)
SELECT record_id::text AS subject,
    format('%s of its %s stays billed', sum(base), CASE WHEN is_prepaid THEN 'prepaid units' ELSE 'charge' END) AS problem
FROM standing
WHERE record_id IS NOT NULL
GROUP BY customer_key, record_id, is_prepaid
HAVING sum(base) < 0
UNION ALL
SELECT subscription_id::text, format('%s stays billed with adjustments, and %s of tax', sum(adjusted), sum(tax))
FROM standing
GROUP BY customer_key, subscription_id
HAVING sum(adjusted) < 0 OR sum(tax) < 0
UNION ALL
SELECT subscription_id::text, format('%s stays taxed at %s percent', sum(amount), rate)
FROM taxable
GROUP BY customer_key, subscription_id, rate
HAVING sum(amount) < 0
