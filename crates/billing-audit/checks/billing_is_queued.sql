-- Whoever has something to be billed in real time is in the queue, and not later than that. What an invoice is for waits
-- for late events as long as the organization says; the last look at a time that is billed waits for five minutes at least.
SELECT customer.customer_id AS subject,
    format('has something to bill at %s, the queue says %s', needed.at, coalesce(queued.due_at::text, 'never')) AS problem
FROM customers customer
JOIN organizations organization ON organization.id = customer.organization_id
CROSS JOIN LATERAL (SELECT make_interval(mins => organization.invoice_grace_minutes::integer) AS minutes) grace
CROSS JOIN LATERAL (
    SELECT (array_agg(at ORDER BY at + wait))[1] AS at, min(at + wait) AS latest
    FROM (
        SELECT coalesce(record.next_invoicing_at, record.late_until) AS at,
            CASE WHEN record.next_invoicing_at IS NULL THEN greatest(grace.minutes, interval '5 minutes') ELSE grace.minutes END AS wait
        FROM billing_records record
        WHERE record.customer_key = customer.customer_key
        UNION ALL
        SELECT subscription.end_at, grace.minutes FROM subscriptions subscription
        WHERE subscription.customer_key = customer.customer_key AND subscription.auto_renew AND NOT subscription.is_renewed
            AND subscription.replaced_by IS NULL
        UNION ALL
        SELECT credit.expires_at, grace.minutes FROM credits credit
        WHERE credit.customer_key = customer.customer_key AND customer.deleted_at IS NULL AND credit.remaining > 0
        UNION ALL
        SELECT invoice.due_at, interval '0' FROM invoices invoice
        WHERE invoice.customer_key = customer.customer_key AND customer.deleted_at IS NULL
            AND invoice.payment_status = 'unpaid' AND invoice.past_due_at IS NULL AND invoice.due_at IS NOT NULL
    ) instant
) needed
LEFT JOIN billing_due queued ON queued.customer_key = customer.customer_key
WHERE customer.test_clock_id IS NULL AND needed.at IS NOT NULL
    AND (queued.due_at IS NULL OR queued.due_at > needed.latest)
