SELECT entry.at, entry.id, entry.customer_key, customers.customer_id, entry.actor_kind, entry.actor_id, entry.actor_name,
    entry.address, entry.request_id, entry.operation, entry.kind, entry.subject, entry.before, entry.after
FROM audit_entries entry
LEFT JOIN customers ON customers.customer_key = entry.customer_key
WHERE entry.organization_id = $1::uuid
    AND ($2::text IS NULL OR entry.actor_id = $2 OR entry.actor_name = $2)
    AND ($3::text IS NULL OR entry.operation = $3)
    AND ($4::text IS NULL OR entry.kind = $4)
    AND ($5::text IS NULL OR entry.subject = $5)
    AND entry.at >= $6::timestamptz AND entry.at < $7::timestamptz
    AND (entry.at, entry.id) < ($8::timestamptz, $9::uuid)
ORDER BY entry.at DESC, entry.id DESC
LIMIT $10::bigint
