SELECT credit.id::text AS subject,
    format('amount %s, drawn %s, restored %s, voided %s, expired %s; its entries say %s, %s, %s, %s, %s', credit.amount, credit.drawn,
        credit.restored, credit.voided, credit.expired, ledger.granted, ledger.drawn, ledger.restored, ledger.voided, ledger.expired) AS problem
FROM credits credit
CROSS JOIN LATERAL (
    SELECT coalesce(sum(amount) FILTER (WHERE kind = 'grant'), 0) AS granted,
        coalesce(sum(amount) FILTER (WHERE kind = 'drawdown'), 0) AS drawn,
        coalesce(sum(amount) FILTER (WHERE kind = 'restored'), 0) AS restored,
        coalesce(sum(amount) FILTER (WHERE kind = 'void'), 0) AS voided,
        coalesce(sum(amount) FILTER (WHERE kind = 'expiry'), 0) AS expired
    FROM credit_entries entry
    WHERE entry.customer_key = credit.customer_key AND entry.credit_id = credit.id
) ledger
WHERE (credit.amount, credit.drawn, credit.restored, credit.voided, credit.expired)
        IS DISTINCT FROM (ledger.granted, ledger.drawn, ledger.restored, ledger.voided, ledger.expired)
    OR credit.amount - ledger.drawn + ledger.restored - ledger.voided - ledger.expired < 0
    OR ledger.restored > ledger.drawn
