-- Whoever has something to be billed in real time is in the queue, and not later than that.
SELECT customer.customer_id AS subject,
    format('has something to bill at %s, the queue says %s', needed.at, coalesce(queued.due_at::text, 'never')) AS problem
FROM customers customer
CROSS JOIN LATERAL (
    SELECT min(at) AS at
    FROM (
        SELECT coalesce(record.next_invoicing_at, record.late_until) AS at FROM billing_records record
        WHERE record.customer_key = customer.customer_key
        UNION ALL
        SELECT subscription.end_at FROM subscriptions subscription
        WHERE subscription.customer_key = customer.customer_key AND subscription.auto_renew AND NOT subscription.is_renewed
            AND subscription.replaced_by IS NULL
        UNION ALL
        SELECT credit.expires_at FROM credits credit
        WHERE credit.customer_key = customer.customer_key AND credit.remaining > 0
    ) instant
) needed
JOIN organizations organization ON organization.id = customer.organization_id
LEFT JOIN billing_due queued ON queued.customer_key = customer.customer_key
WHERE customer.test_clock_id IS NULL AND needed.at IS NOT NULL
    AND (queued.due_at IS NULL OR queued.due_at > needed.at + make_interval(mins => organization.invoice_grace_minutes::integer))
