-- The sequence is what stands behind the hyphen. A number that a lane on another server has taken for an invoice that it has not committed
-- yet, or has given back, is in its place too.
SELECT organization_id::text AS subject,
    format('%s invoices numbered %s to %s, the counter says %s', count(*), min(sequence), max(sequence), max(last_sequence)) AS problem
FROM (
    SELECT taken.organization_id, taken.sequence, counter.last_sequence
    FROM (
        SELECT organization_id, split_part(number, '-', 2)::bigint AS sequence FROM invoices
        UNION ALL
        SELECT organization_id, sequence FROM returned_numbers WHERE kind = 'invoice_number'
        UNION ALL
        SELECT reserved.organization_id, reserved.sequence
        FROM lane_reservations reserved
        LEFT JOIN invoices invoice ON invoice.organization_id = reserved.organization_id AND invoice.number = reserved.name
        WHERE reserved.kind = 'invoice_number' AND invoice.number IS NULL
    ) taken
    LEFT JOIN invoice_counters counter USING (organization_id)
) numbered
GROUP BY organization_id
HAVING count(DISTINCT sequence) <> count(*) OR min(sequence) <> 1 OR max(sequence) <> count(*)
    OR max(last_sequence) IS DISTINCT FROM max(sequence)
