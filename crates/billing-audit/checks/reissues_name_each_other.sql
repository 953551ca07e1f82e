-- An invoice that was issued in the place of another names it, and is named by it; they are of one customer and currency, and the other one is
-- voided, by the time that it was issued. So nothing is billed anew twice, and nothing that was not withdrawn.
SELECT invoice.number AS subject,
    format('it replaces %s, which was replaced by %s', invoice.replaces, coalesce(replaced.replaced_by::text, 'nothing')) AS problem
FROM invoices invoice
LEFT JOIN invoices replaced ON replaced.customer_key = invoice.customer_key AND replaced.id = invoice.replaces
WHERE invoice.replaces IS NOT NULL AND (replaced.replaced_by IS DISTINCT FROM invoice.id OR replaced.currency_code <> invoice.currency_code
    OR replaced.payment_status <> 'voided' OR replaced.voided_at > invoice.issued_at)
UNION ALL
SELECT invoice.number, format('it was replaced by %s, which replaces %s', invoice.replaced_by, coalesce(other.replaces::text, 'nothing'))
FROM invoices invoice
LEFT JOIN invoices other ON other.customer_key = invoice.customer_key AND other.id = invoice.replaced_by
WHERE invoice.replaced_by IS NOT NULL AND other.replaces IS DISTINCT FROM invoice.id
