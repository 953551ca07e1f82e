-- Each place that is kept has its message, of the same customer and type, and each message that was placed has a place.
WITH told AS (
    SELECT organization_id, customer_key, id, message_type, is_placed FROM messages
    UNION ALL
    SELECT organization_id, NULL, id, message_type, is_placed FROM organization_messages
)
SELECT entry.message_id::text AS subject, format('place %s of %s shows no such message', entry.position, entry.organization_id) AS problem
FROM feed_entries entry
JOIN message_counters counter USING (organization_id)
LEFT JOIN told ON told.organization_id = entry.organization_id AND told.id = entry.message_id
    AND told.customer_key IS NOT DISTINCT FROM entry.customer_key AND told.message_type = entry.message_type
WHERE entry.position >= counter.first_kept AND told.id IS NULL
UNION ALL
SELECT told.id::text, 'it was placed and has no place'
FROM told
LEFT JOIN feed_entries entry ON entry.organization_id = told.organization_id AND entry.message_id = told.id
WHERE told.is_placed AND entry.message_id IS NULL
