SELECT event.idempotency_id AS subject, 'does not have the hash of its id' AS problem
FROM events event
WHERE substr(sha256(convert_to(event.idempotency_id, 'UTF8')), 1, 16) <> decode(replace(event.id_hash::text, '-', ''), 'hex')
UNION ALL
SELECT event.idempotency_id, format('is there %s times in the month of %s', count(*), date_trunc('month', min(event.time_created AT TIME ZONE 'UTC')))
FROM events event
GROUP BY event.organization_id, event.customer_key, event.idempotency_id, date_trunc('month', event.time_created AT TIME ZONE 'UTC')
HAVING count(*) > 1
