-- The positions of each feed go from the first that is kept to the last without a gap. Places before that are on their way out: they
-- go last, behind their messages.
SELECT counter.organization_id::text AS subject,
    format('kept from %s to %s, and %s places are there', counter.first_kept, counter.last_position, count(entry.position)) AS problem
FROM message_counters counter
LEFT JOIN feed_entries entry ON entry.organization_id = counter.organization_id
    AND entry.position BETWEEN counter.first_kept AND counter.last_position
GROUP BY counter.organization_id, counter.first_kept, counter.last_position
HAVING count(entry.position) <> counter.last_position - counter.first_kept + 1
UNION ALL
SELECT entry.organization_id::text, format('there is a place %s, beyond the end of the feed', entry.position)
FROM feed_entries entry
LEFT JOIN message_counters counter USING (organization_id)
WHERE entry.position > coalesce(counter.last_position, 0)
