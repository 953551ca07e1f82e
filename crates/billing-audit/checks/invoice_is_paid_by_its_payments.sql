-- What is paid of an invoice is what its payments and credit notes settled, its status follows, a reversal takes back one payment of the same
-- invoice, what was too much is a credit in its currency, and nobody has credit of a payment that was taken back.
WITH entry AS (
    SELECT customer_key, id, invoice_id, kind, reverses, amount, credited, credit_id, noted_at,
        CASE kind WHEN 'payment' THEN amount WHEN 'reversal' THEN -amount ELSE 0 END AS stands,
        CASE WHEN kind IN ('payment', 'credit_note') THEN credited ELSE -credited END AS credits,
        sum(CASE WHEN kind IN ('payment', 'credit_note') THEN amount - credited
            WHEN kind IN ('reversal', 'credit_note_voided') THEN credited - amount ELSE credited END)
            OVER (PARTITION BY customer_key, invoice_id ORDER BY position) AS settled_since,
        row_number() OVER (PARTITION BY customer_key, invoice_id ORDER BY position DESC) AS from_last
    FROM payments
), ledger AS (
    SELECT customer_key, invoice_id, sum(stands) AS standing, max(settled_since) FILTER (WHERE from_last = 1) AS settled
    FROM entry
    GROUP BY customer_key, invoice_id
), owed AS (
    -- What the credit of a reversed payment had paid for other invoices, and did not return since.
    SELECT customer_key, invoice_id, credit_id, sum(credits) AS amount, bool_or(kind = 'payment') AS is_of_payment
    FROM entry
    WHERE credit_id IS NOT NULL AND kind IN ('payment', 'reversal', 'returned')
    GROUP BY customer_key, invoice_id, credit_id
    HAVING bool_or(kind <> 'payment')
), out AS (
    SELECT customer_key, credit_id, at,
        sum(CASE kind WHEN 'drawdown' THEN amount WHEN 'restored' THEN -amount ELSE 0 END)
            OVER (PARTITION BY customer_key, credit_id ORDER BY position) AS amount
    FROM credit_entries
)
SELECT invoice.number AS subject,
    format('%s of %s, paid %s, its payments say %s of which %s stand', invoice.payment_status, invoice.amount, invoice.amount_paid,
        coalesce(ledger.settled, 0), coalesce(ledger.standing, 0)) AS problem
FROM invoices invoice
LEFT JOIN ledger ON ledger.customer_key = invoice.customer_key AND ledger.invoice_id = invoice.id
WHERE invoice.amount_paid <> coalesce(ledger.settled, 0)
    OR invoice.payment_status <> CASE WHEN invoice.voided_at IS NOT NULL THEN 'voided'
        WHEN coalesce(ledger.settled, 0) = invoice.amount THEN 'paid' ELSE 'unpaid' END
    OR ledger.settled > invoice.amount
    OR ledger.standing < 0
    OR (invoice.voided_at IS NOT NULL AND ledger.standing <> 0)
UNION ALL
SELECT reversal.id::text, format('takes back %s with %s of credit, of a %s of %s with %s', reversal.amount, reversal.credited,
    coalesce(payment.kind, 'payment that is not there'), payment.amount, payment.credited)
FROM entry reversal
LEFT JOIN entry payment ON payment.customer_key = reversal.customer_key AND payment.id = reversal.reverses
WHERE reversal.kind = 'reversal' AND (
    payment.kind IS DISTINCT FROM 'payment'
    OR (payment.invoice_id, payment.amount) IS DISTINCT FROM (reversal.invoice_id, reversal.amount)
    OR payment.credit_id IS DISTINCT FROM reversal.credit_id
    OR reversal.credited > payment.credited
    -- The rest must have been out once by then; what is noted at the same instant has no order between the two ledgers.
    OR (reversal.credited < payment.credited AND NOT EXISTS (
        SELECT FROM out
        WHERE out.customer_key = reversal.customer_key AND out.credit_id = reversal.credit_id
            AND out.at <= reversal.noted_at AND out.amount = payment.credited - reversal.credited
    ))
)
UNION ALL
SELECT payment.id::text, format('%s of %s were too much when %s of %s were paid, its credit is of %s %s', payment.credited,
    payment.amount, payment.settled_since, invoice.amount, credit.amount, credit.currency_code)
FROM entry payment
JOIN invoices invoice ON invoice.customer_key = payment.customer_key AND invoice.id = payment.invoice_id
LEFT JOIN credits credit ON credit.customer_key = payment.customer_key AND credit.id = payment.credit_id
WHERE (payment.kind = 'payment' AND (payment.credited > 0 OR payment.credit_id IS NOT NULL)
        OR payment.kind = 'credit_note' AND payment.credit_id IS NOT NULL)
    AND (credit.amount, credit.currency_code, payment.settled_since)
        IS DISTINCT FROM (payment.credited, invoice.currency_code, invoice.amount)
UNION ALL
SELECT credit.id::text, format('its payment was taken back: %s are owed with invoice %s, it has paid %s for others and has %s',
    owed.amount, invoice.number, credit.drawn - credit.restored, credit.remaining)
FROM owed
JOIN invoices invoice ON invoice.customer_key = owed.customer_key AND invoice.id = owed.invoice_id
JOIN credits credit ON credit.customer_key = owed.customer_key AND credit.id = owed.credit_id
WHERE NOT owed.is_of_payment
    OR owed.amount < credit.drawn - credit.restored
    -- Once the invoice is paid, that money is behind what came back of the credit.
    OR (invoice.payment_status = 'unpaid' AND (owed.amount > credit.drawn - credit.restored OR credit.remaining > 0))
