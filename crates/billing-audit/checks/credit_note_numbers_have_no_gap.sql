-- The sequence is what stands behind the last hyphen, the day before it that of the issue. A number that a lane on another server has taken
-- for a note that it has not committed yet, or has given back, is in its place too.
SELECT organization_id::text AS subject,
    format('%s credit notes numbered %s to %s, the counter says %s', count(*), min(sequence), max(sequence), max(last_credit_note)) AS problem
FROM (
    SELECT taken.organization_id, taken.sequence, counter.last_credit_note
    FROM (
        SELECT organization_id, split_part(number, '-', 3)::bigint AS sequence FROM credit_notes
        UNION ALL
        SELECT organization_id, sequence FROM returned_numbers WHERE kind = 'credit_note_number'
        UNION ALL
        SELECT reserved.organization_id, reserved.sequence
        FROM lane_reservations reserved
        LEFT JOIN credit_notes note ON note.organization_id = reserved.organization_id AND note.number = reserved.name
        WHERE reserved.kind = 'credit_note_number' AND note.number IS NULL
    ) taken
    LEFT JOIN invoice_counters counter USING (organization_id)
) numbered
GROUP BY organization_id
HAVING count(DISTINCT sequence) <> count(*) OR min(sequence) <> 1 OR max(sequence) <> count(*)
    OR max(last_credit_note) IS DISTINCT FROM max(sequence)
UNION ALL
SELECT number, format('issued on %s', issued_at)
FROM credit_notes
WHERE split_part(number, '-', 2) <> to_char(issued_at AT TIME ZONE 'UTC', 'YYMMDD') OR split_part(number, '-', 1) <> 'CN'
