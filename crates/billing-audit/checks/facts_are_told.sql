-- Of invoices, credits, credit notes, one-off lines, add-ons and subscriptions: each fact whose row is younger than the oldest message that is kept was told as
-- often as it happened, and what was told of an invoice, a credit or a subscription is so. Rows and messages bear the time at which
-- they were made in their ids; what was made within an hour of messages that were dropped because of their age is left alone.
-- Nothing is said of what leaves no row of its own: changes of subscriptions, parked billing, and what is an organization's own.
WITH kept AS (
    SELECT message.organization_id,
        CASE WHEN counter.first_kept > 1 THEN (
            SELECT entry.written_at FROM feed_entries entry
            WHERE entry.organization_id = message.organization_id AND entry.position >= counter.first_kept
            ORDER BY entry.position LIMIT 1
        ) + interval '1 hour' END AS from_at,
        min(message.id::text) AS from_id
    FROM messages message
    LEFT JOIN message_counters counter USING (organization_id)
    GROUP BY message.organization_id, counter.first_kept
), told AS (
    SELECT organization_id, message_type, customer_key,
        coalesce('invoice_' || replace(invoice_id::text, '-', ''), data::jsonb ->> 'addon_subscription_id',
            data::jsonb ->> 'subscription_id', data::jsonb ->> 'credit_note_id', data::jsonb ->> 'credit_id', data::jsonb ->> 'version_id',
            data::jsonb ->> 'metric_id', data::jsonb ->> 'one_off_line_id') AS subject,
        count(*) AS times
    FROM messages
    WHERE message_type NOT IN ('customer.created', 'customer.billing_parked', 'subscription.changed')
    GROUP BY 1, 2, 3, 4
), fact AS (
    SELECT organization_id, customer_key, 'invoice_' AS prefix, id, 'invoice.created' AS message_type, 1 AS times FROM invoices
    UNION ALL
    SELECT organization_id, customer_key, 'invoice_', id, 'invoice.voided', 1 FROM invoices WHERE payment_status = 'voided'
    UNION ALL
    -- Paid is an invoice as it is issued when it is of nothing, and as often as its payments make it.
    SELECT invoice.organization_id, invoice.customer_key, 'invoice_', invoice.id, 'invoice.paid', count(*)
    FROM invoices invoice
    CROSS JOIN LATERAL (
        SELECT TRUE WHERE invoice.amount = 0
        UNION ALL
        SELECT TRUE FROM (
            SELECT settles, sum(settles) OVER (ORDER BY position) AS settled
            FROM (
                SELECT position, CASE WHEN kind IN ('payment', 'credit_note') THEN amount - credited
                    WHEN kind IN ('reversal', 'credit_note_voided') THEN credited - amount ELSE credited END AS settles
                FROM payments payment
                WHERE payment.customer_key = invoice.customer_key AND payment.invoice_id = invoice.id
            ) entry
        ) running
        WHERE running.settled = invoice.amount AND running.settles > 0
    ) became_paid
    GROUP BY 1, 2, 3, 4, 5
    UNION ALL
    SELECT organization_id, customer_key, 'invoice_', id, 'invoice.past_due', 1 FROM invoices WHERE past_due_at IS NOT NULL
    UNION ALL
    SELECT organization_id, customer_key, 'credit_', id, 'credit.created', 1 FROM credits
    UNION ALL
    SELECT credit.organization_id, credit.customer_key, 'credit_', credit.id,
        CASE entry.kind WHEN 'drawdown' THEN 'credit.drawn' WHEN 'void' THEN 'credit.voided' ELSE 'credit.expired' END, count(*)
    FROM credits credit
    JOIN credit_entries entry ON entry.customer_key = credit.customer_key AND entry.credit_id = credit.id
    WHERE entry.kind IN ('drawdown', 'void', 'expiry')
    GROUP BY 1, 2, 3, 4, 5
    UNION ALL
    SELECT organization_id, customer_key, 'credit_note_', id, 'credit_note.created', 1 FROM credit_notes
    UNION ALL
    SELECT organization_id, customer_key, 'credit_note_', id, 'credit_note.voided', 1 FROM credit_notes WHERE voided_at IS NOT NULL
    UNION ALL
    -- Each was made once, however many invoices have it.
    SELECT organization_id, customer_key, 'one_off_line_', right(id, 32)::uuid, 'one_off_line.created', 1
    FROM (
        SELECT organization_id, customer_key, waits ->> 'id' AS id
        FROM customers CROSS JOIN LATERAL jsonb_array_elements(one_off_lines) waits
        UNION
        SELECT organization_id, customer_key, trace ->> 'one_off_line_id' FROM invoice_lines WHERE trace ->> 'kind' = 'one_off'
    ) one_off
    UNION ALL
    SELECT organization_id, customer_key, 'addon_sub_', id, 'addon.attached', 1 FROM subscriptions
    WHERE parent_id IS NOT NULL AND is_new
    UNION ALL
    SELECT organization_id, customer_key, 'sub_', id, 'subscription.cancelled', 1 FROM subscriptions
    WHERE parent_id IS NULL AND usage_behavior IS NOT NULL
), expected AS (
    SELECT fact.organization_id, fact.customer_key, fact.message_type, fact.times,
        CASE fact.prefix WHEN 'credit_' THEN 'baladj_' ELSE fact.prefix END || replace(fact.id::text, '-', '') AS subject
    FROM fact
    JOIN kept USING (organization_id)
    WHERE CASE WHEN kept.from_at IS NULL THEN fact.id::text > kept.from_id
        ELSE to_timestamp(('x' || left(replace(fact.id::text, '-', ''), 12))::bit(48)::bigint / 1000.0) > kept.from_at END
), begun AS (
    -- Each subscription began once: made, renewed or switched to.
    SELECT subscription.organization_id, subscription.customer_key, 'sub_' || replace(subscription.id::text, '-', '') AS subject
    FROM subscriptions subscription
    JOIN kept USING (organization_id)
    WHERE subscription.parent_id IS NULL
        AND CASE WHEN kept.from_at IS NULL THEN subscription.id::text > kept.from_id
            ELSE to_timestamp(('x' || left(replace(subscription.id::text, '-', ''), 12))::bit(48)::bigint / 1000.0) > kept.from_at END
)
SELECT coalesce(expected.subject, 'message') AS subject,
    format('%s happened %s times and was told %s times', expected.message_type, expected.times, coalesce(told.times, 0)) AS problem
FROM expected
LEFT JOIN told USING (organization_id, customer_key, message_type, subject)
WHERE told.times IS DISTINCT FROM expected.times
UNION ALL
SELECT begun.subject, format('it began and was told to have begun %s times', coalesce(sum(told.times), 0))
FROM begun
LEFT JOIN told ON told.organization_id = begun.organization_id AND told.customer_key = begun.customer_key
    AND told.subject = begun.subject
    AND told.message_type IN ('subscription.created', 'subscription.renewed', 'subscription.switched')
GROUP BY begun.organization_id, begun.subject
HAVING coalesce(sum(told.times), 0) <> 1
UNION ALL
SELECT coalesce(told.subject, 'a message that says nothing'), format('%s was told and is not so', told.message_type)
FROM told
LEFT JOIN invoices invoice ON invoice.customer_key = told.customer_key
    AND told.subject = 'invoice_' || replace(invoice.id::text, '-', '')
WHERE told.message_type LIKE 'invoice.%' AND (
    invoice.id IS NULL
    OR told.message_type = 'invoice.paid' AND (invoice.customer_key, invoice.id) NOT IN (
        SELECT customer_key, id FROM fact WHERE message_type = 'invoice.paid')
    OR told.message_type = 'invoice.voided' AND invoice.payment_status <> 'voided'
    OR told.message_type = 'invoice.past_due' AND invoice.past_due_at IS NULL
)
UNION ALL
SELECT coalesce(told.subject, 'a message that says nothing'), format('%s was told and is not so', told.message_type)
FROM told
LEFT JOIN subscriptions subscription ON subscription.customer_key = told.customer_key
    AND told.subject IN ('sub_' || replace(subscription.id::text, '-', ''), 'addon_sub_' || replace(subscription.id::text, '-', ''))
WHERE (told.message_type LIKE 'subscription.%' OR told.message_type = 'addon.attached') AND subscription.id IS NULL
UNION ALL
SELECT coalesce(told.subject, 'a message that says nothing'), format('%s was told and is not so', told.message_type)
FROM told
LEFT JOIN credits credit ON credit.customer_key = told.customer_key AND told.subject = 'baladj_' || replace(credit.id::text, '-', '')
WHERE told.message_type LIKE 'credit.%' AND (
    credit.id IS NULL
    OR told.message_type <> 'credit.created' AND NOT EXISTS (
        SELECT FROM credit_entries entry
        WHERE entry.customer_key = credit.customer_key AND entry.credit_id = credit.id
            AND entry.kind = CASE told.message_type WHEN 'credit.drawn' THEN 'drawdown' WHEN 'credit.voided' THEN 'void' ELSE 'expiry' END
    )
)
UNION ALL
SELECT coalesce(told.subject, 'a message that says nothing'), format('%s was told and is not so', told.message_type)
FROM told
LEFT JOIN credit_notes note ON note.customer_key = told.customer_key AND told.subject = 'credit_note_' || replace(note.id::text, '-', '')
WHERE told.message_type LIKE 'credit\_note.%' AND (note.id IS NULL OR told.message_type = 'credit_note.voided' AND note.voided_at IS NULL)
UNION ALL
SELECT message.id::text, 'a customer was told to be created who is not there'
FROM messages message
LEFT JOIN customers customer USING (customer_key)
WHERE message.message_type LIKE 'customer.%' AND customer.customer_key IS NULL
