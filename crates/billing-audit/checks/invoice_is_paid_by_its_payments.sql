-- What is paid of an invoice is what its payments settled, its status follows, a reversal takes back one payment of the same
-- invoice, and what was too much is a credit in its currency.
SELECT invoice.number AS subject,
    format('%s of %s, paid %s, its payments say %s of which %s stand', invoice.payment_status, invoice.amount, invoice.amount_paid,
        ledger.settled, ledger.standing) AS problem
FROM invoices invoice
CROSS JOIN LATERAL (
    SELECT coalesce(sum(CASE payment.kind WHEN 'payment' THEN payment.amount - payment.credited
            ELSE payment.credited - payment.amount END), 0) AS settled,
        coalesce(sum(CASE payment.kind WHEN 'payment' THEN payment.amount ELSE -payment.amount END), 0) AS standing
    FROM payments payment
    WHERE payment.customer_key = invoice.customer_key AND payment.invoice_id = invoice.id
) ledger
WHERE invoice.amount_paid <> ledger.settled
    OR invoice.payment_status <> CASE WHEN invoice.voided_at IS NOT NULL THEN 'voided'
        WHEN ledger.settled = invoice.amount THEN 'paid' ELSE 'unpaid' END
    OR ledger.settled > invoice.amount
    OR ledger.standing < 0
    OR (invoice.voided_at IS NOT NULL AND ledger.standing <> 0)
UNION ALL
SELECT reversal.id::text, format('takes back %s with %s of credit, of a %s of %s with %s', reversal.amount, reversal.credited,
    coalesce(payment.kind, 'payment that is not there'), payment.amount, payment.credited)
FROM payments reversal
LEFT JOIN payments payment ON payment.customer_key = reversal.customer_key AND payment.id = reversal.reverses
WHERE reversal.kind = 'reversal' AND (
    payment.kind IS DISTINCT FROM 'payment'
    OR (payment.invoice_id, payment.amount) IS DISTINCT FROM (reversal.invoice_id, reversal.amount)
    OR payment.credit_id IS DISTINCT FROM reversal.credit_id
    OR reversal.credited > payment.credited
)
UNION ALL
SELECT payment.id::text, format('%s of %s were too much, its credit is of %s %s', payment.credited, payment.amount, credit.amount,
    credit.currency_code)
FROM payments payment
JOIN invoices invoice ON invoice.customer_key = payment.customer_key AND invoice.id = payment.invoice_id
LEFT JOIN credits credit ON credit.customer_key = payment.customer_key AND credit.id = payment.credit_id
WHERE payment.kind = 'payment' AND (payment.credited > 0 OR payment.credit_id IS NOT NULL)
    AND (credit.amount, credit.currency_code) IS DISTINCT FROM (payment.credited, invoice.currency_code)
