-- What a voided invoice charged counts, since it is not charged again; what it took back does not, since it is owed again. What credit notes gave
-- back for corrected events comes off. Of an invoice that was issued anew nothing counts.
SELECT subscription.id::text AS subject,
    format('settled adjustments %s and tax %s, its lines show %s and %s', subscription.settled_adjustments, subscription.settled_tax,
        shown.adjustments - corrected.adjustments, shown.tax - corrected.tax) AS problem
FROM subscriptions subscription
CROSS JOIN LATERAL (
    SELECT coalesce(sum((adjustment ->> 'amount')::numeric) FILTER (WHERE adjustment -> 'basis' ->> 'kind' = 'plan_adjustment'), 0) AS adjustments,
        coalesce(sum((adjustment ->> 'amount')::numeric) FILTER (WHERE adjustment -> 'basis' ->> 'kind' = 'sales_tax'), 0) AS tax
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    CROSS JOIN LATERAL jsonb_array_elements(line.adjustments) adjustment
    WHERE line.customer_key = subscription.customer_key AND line.subscription_id = subscription.id
        AND invoice.replaced_by IS NULL AND NOT (invoice.payment_status = 'voided' AND (line.amount < 0 OR (line.amount = 0 AND line.base < 0)))
) shown
CROSS JOIN LATERAL (
    SELECT coalesce(sum(credited.amount - credited.tax - credited.base), 0) AS adjustments, coalesce(sum(credited.tax), 0) AS tax
    FROM invoice_lines line
    JOIN credit_note_lines credited
        ON credited.customer_key = line.customer_key AND credited.invoice_id = line.invoice_id AND credited.position = line.position
    JOIN credit_notes note ON note.customer_key = credited.customer_key AND note.id = credited.credit_note_id
    WHERE line.customer_key = subscription.customer_key AND line.subscription_id = subscription.id
        AND note.is_correction AND note.voided_at IS NULL
) corrected
WHERE subscription.settled_adjustments <> shown.adjustments - corrected.adjustments OR subscription.settled_tax <> shown.tax - corrected.tax
