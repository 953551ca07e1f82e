-- Each correction is of an event that is there, and each event that says it was corrected has corrections; the event is what the last of them
-- made of it: voided, or as it was amended.
WITH last AS (
    SELECT DISTINCT ON (customer_key, id_hash, idempotency_id) customer_key, id_hash, idempotency_id, event_name, arrival, amended_time, amended_properties
    FROM event_corrections
    ORDER BY customer_key, id_hash, idempotency_id, arrival DESC
), stored AS (
    SELECT customer_key, idempotency_id, event_name, time_created, properties, correction
    FROM events
    WHERE correction IN (1, 2)
)
SELECT last.idempotency_id AS subject, format('it was %s, and is stored otherwise: %s',
    CASE WHEN last.amended_time IS NULL THEN 'voided' ELSE 'amended' END, coalesce('state ' || stored.correction, 'not at all')) AS problem
FROM last
LEFT JOIN stored ON stored.customer_key = last.customer_key AND stored.idempotency_id = last.idempotency_id
    AND stored.event_name = last.event_name
WHERE stored.customer_key IS NULL
    OR (stored.correction = 2) <> (last.amended_time IS NULL)
    OR (last.amended_time IS NOT NULL AND (stored.time_created <> last.amended_time OR stored.properties::jsonb <> last.amended_properties::jsonb))
UNION ALL
SELECT stored.idempotency_id, 'it says that it was corrected, and no correction does'
FROM stored
LEFT JOIN last ON last.customer_key = stored.customer_key AND last.idempotency_id = stored.idempotency_id
WHERE last.customer_key IS NULL
