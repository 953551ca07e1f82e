-- Each firing of a usage alert was told in one message, and each message about one is of a firing; of those younger than the oldest
-- message that is kept, and an hour, by the real time at which they were written.
WITH kept AS (
    SELECT organization.id AS organization_id,
        CASE WHEN counter.first_kept > 1 THEN (
            SELECT entry.written_at FROM feed_entries entry
            WHERE entry.organization_id = organization.id AND entry.position >= counter.first_kept
            ORDER BY entry.position LIMIT 1
        ) + interval '1 hour' ELSE '-infinity'::timestamptz END AS from_at
    FROM organizations organization
    LEFT JOIN message_counters counter ON counter.organization_id = organization.id
), told AS (
    SELECT message.organization_id, customer_key, 'usg_alert_' || replace(firing.usage_alert_id::text, '-', '') AS alert,
        firing.interval_start, message.id, message.written_at
    FROM messages message
    CROSS JOIN LATERAL (
        SELECT replace(data::jsonb #>> '{usage_alert,usage_alert_id}', 'usg_alert_', '')::uuid AS usage_alert_id,
            (data::jsonb ->> 'interval_start')::timestamptz AS interval_start
    ) firing
    WHERE message.message_type = 'usage_alert.triggered'
), fired AS (
    SELECT organization_id, customer_key, 'usg_alert_' || replace(usage_alert_id::text, '-', '') AS alert, interval_start, written_at
    FROM usage_alert_firings
)
SELECT fired.alert AS subject, format('it fired for the interval from %s and was told %s times', fired.interval_start, count(told.id)) AS problem
FROM fired
JOIN kept USING (organization_id)
LEFT JOIN told USING (organization_id, customer_key, alert, interval_start)
WHERE fired.written_at > kept.from_at
GROUP BY fired.organization_id, fired.customer_key, fired.alert, fired.interval_start
HAVING count(told.id) <> 1
UNION ALL
SELECT coalesce(told.alert, told.id::text), format('it was told for the interval from %s and has not fired', told.interval_start)
FROM told
LEFT JOIN fired USING (organization_id, customer_key, alert, interval_start)
WHERE fired.customer_key IS NULL
