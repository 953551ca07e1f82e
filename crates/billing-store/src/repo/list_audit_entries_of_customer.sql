SELECT entry.at, entry.id, entry.customer_key, customers.customer_id, entry.actor_kind, entry.actor_id, entry.actor_name,
    entry.address, entry.request_id, entry.operation, entry.kind, entry.subject, entry.before, entry.after
FROM audit_entries entry
LEFT JOIN customers ON customers.customer_key = entry.customer_key
WHERE entry.customer_key = $1::uuid AND (entry.organization_id = $2::uuid) IS TRUE
    AND ($3::text IS NULL OR entry.actor_id = $3 OR entry.actor_name = $3)
    AND ($4::text IS NULL OR entry.operation = $4)
    AND ($5::text IS NULL OR entry.kind = $5)
    AND ($6::text IS NULL OR entry.subject = $6)
    AND entry.at >= $7::timestamptz AND entry.at < $8::timestamptz
    AND (entry.at, entry.id) < ($9::timestamptz, $10::uuid)
ORDER BY entry.at DESC, entry.id DESC
LIMIT $11::bigint
