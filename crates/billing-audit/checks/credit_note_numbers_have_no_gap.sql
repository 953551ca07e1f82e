-- The sequence is what stands behind the last hyphen, the day before it that of the issue.
SELECT organization_id::text AS subject,
    format('%s credit notes numbered %s to %s, the counter says %s', count(*), min(sequence), max(sequence), max(last_credit_note)) AS problem
FROM (
    SELECT note.organization_id, split_part(note.number, '-', 3)::bigint AS sequence, counter.last_credit_note
    FROM credit_notes note
    LEFT JOIN invoice_counters counter USING (organization_id)
) numbered
GROUP BY organization_id
HAVING count(DISTINCT sequence) <> count(*) OR min(sequence) <> 1 OR max(sequence) <> count(*)
    OR max(last_credit_note) IS DISTINCT FROM max(sequence)
UNION ALL
SELECT number, format('issued on %s', issued_at)
FROM credit_notes
WHERE split_part(number, '-', 2) <> to_char(issued_at AT TIME ZONE 'UTC', 'YYMMDD') OR split_part(number, '-', 1) <> 'CN'
