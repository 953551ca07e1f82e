-- Each credit note is in the ledger of its invoice, once for its issue and once for its void, and what was not due any more is a
-- credit in its currency, or was refunded out of money that came.
SELECT note.number AS subject,
    format('of %s with %s not due, %s; the ledger says issued %s with %s, voided %s', note.amount, note.credited,
        coalesce('voided ' || note.voided_at, 'standing'), issued.amounts, issued.credits, voided.amounts) AS problem
FROM credit_notes note
CROSS JOIN LATERAL (
    SELECT array_agg(amount) AS amounts, array_agg(credited) AS credits, array_agg(credit_id) AS credit_ids
    FROM payments entry
    WHERE entry.customer_key = note.customer_key AND entry.credit_note_id = note.id AND entry.invoice_id = note.invoice_id
        AND entry.kind = 'credit_note'
) issued
CROSS JOIN LATERAL (
    SELECT array_agg(amount) AS amounts, array_agg(credited) AS credits, array_agg(credit_id) AS credit_ids
    FROM payments entry
    WHERE entry.customer_key = note.customer_key AND entry.credit_note_id = note.id AND entry.invoice_id = note.invoice_id
        AND entry.kind = 'credit_note_voided'
) voided
WHERE (issued.amounts, issued.credits, issued.credit_ids)
        IS DISTINCT FROM (ARRAY[note.amount], ARRAY[note.credited], ARRAY[note.credit_id])
    OR (note.voided_at IS NULL AND voided.amounts IS NOT NULL)
    OR (note.voided_at IS NOT NULL AND (voided.amounts, voided.credits, voided.credit_ids)
        IS DISTINCT FROM (ARRAY[note.amount], ARRAY[note.credited], ARRAY[note.credit_id]))
UNION ALL
SELECT note.number, format('its credit is of %s %s, of which %s are out or left although it is void', credit.amount, credit.currency_code,
    credit.amount - credit.voided - credit.expired)
FROM credit_notes note
LEFT JOIN credits credit ON credit.customer_key = note.customer_key AND credit.id = note.credit_id
WHERE note.credit_id IS NOT NULL AND (
    (credit.amount, credit.currency_code) IS DISTINCT FROM (note.credited, note.currency_code)
    OR (note.voided_at IS NOT NULL AND credit.amount <> credit.voided + credit.expired)
)
UNION ALL
SELECT invoice.number, format('%s refunded outside, and %s of money had ever come', refunded.amount, came.amount)
FROM invoices invoice
JOIN (
    SELECT customer_key, invoice_id, sum(amount) AS amount
    FROM credit_notes
    WHERE settlement = 'outside' AND voided_at IS NULL
    GROUP BY customer_key, invoice_id
) refunded ON refunded.customer_key = invoice.customer_key AND refunded.invoice_id = invoice.id
CROSS JOIN LATERAL (
    -- What was taken back since does not undo a refund.
    SELECT coalesce(sum(entry.amount - entry.credited), 0) AS amount
    FROM payments entry
    WHERE entry.customer_key = invoice.customer_key AND entry.invoice_id = invoice.id AND entry.kind IN ('payment', 'returned')
) came
WHERE refunded.amount > came.amount
