SELECT entry.at, entry.id, entry.customer_key, customers.customer_id, entry.actor_kind, entry.actor_id, entry.actor_name,
    entry.address, entry.request_id, entry.operation, entry.kind, entry.subject, entry.before, entry.after
FROM (
    SELECT organization_id, at, id, customer_key, actor_kind, actor_id, actor_name, address, request_id, operation, kind, subject,
        before, after
    FROM audit_entries
    UNION ALL
    SELECT organization_id, at, id, NULL::uuid, actor_kind, actor_id, actor_name, address, request_id, operation, kind, subject,
        before, after
    FROM organization_audit_entries
    WHERE $1::boolean
) entry
LEFT JOIN customers ON customers.customer_key = entry.customer_key
WHERE entry.organization_id = $2::uuid
    AND ($3::uuid IS NULL OR entry.customer_key = $3)
    AND ($4::text IS NULL OR entry.actor_id = $4 OR entry.actor_name = $4)
    AND ($5::text IS NULL OR entry.operation = $5)
    AND ($6::text IS NULL OR entry.kind = $6)
    AND ($7::text IS NULL OR entry.subject = $7)
    AND entry.at >= $8::timestamptz AND entry.at < $9::timestamptz
    AND (entry.at, entry.id) < ($10::timestamptz, $11::uuid)
ORDER BY entry.at DESC, entry.id DESC
LIMIT $12::bigint
