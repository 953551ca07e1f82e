-- What a voided invoice charged counts, since it is not charged again; what it took back does not, since it is owed again.
SELECT subscription.id::text AS subject,
    format('settled adjustments %s and tax %s, its lines show %s and %s', subscription.settled_adjustments, subscription.settled_tax,
        shown.adjustments, shown.tax) AS problem
FROM subscriptions subscription
CROSS JOIN LATERAL (
    SELECT coalesce(sum((adjustment ->> 'amount')::numeric) FILTER (WHERE adjustment -> 'basis' ->> 'kind' = 'plan_adjustment'), 0) AS adjustments,
        coalesce(sum((adjustment ->> 'amount')::numeric) FILTER (WHERE adjustment -> 'basis' ->> 'kind' = 'sales_tax'), 0) AS tax
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    CROSS JOIN LATERAL jsonb_array_elements(line.adjustments) adjustment
    WHERE line.customer_key = subscription.customer_key AND line.subscription_id = subscription.id
        AND NOT (invoice.payment_status = 'voided' AND (line.amount < 0 OR (line.amount = 0 AND line.base < 0)))
) shown
WHERE subscription.settled_adjustments <> shown.adjustments OR subscription.settled_tax <> shown.tax
