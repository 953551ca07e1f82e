-- The sequence is what stands behind the hyphen.
SELECT organization_id::text AS subject,
    format('%s invoices numbered %s to %s, the counter says %s', count(*), min(sequence), max(sequence), max(last_sequence)) AS problem
FROM (
    SELECT invoice.organization_id, split_part(invoice.number, '-', 2)::bigint AS sequence, counter.last_sequence
    FROM invoices invoice
    LEFT JOIN invoice_counters counter USING (organization_id)
) numbered
GROUP BY organization_id
HAVING count(DISTINCT sequence) <> count(*) OR min(sequence) <> 1 OR max(sequence) <> count(*)
    OR max(last_sequence) IS DISTINCT FROM max(sequence)
