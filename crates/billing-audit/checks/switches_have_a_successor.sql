SELECT old.id::text AS subject, format('was replaced by %s, which is %s', old.replaced_by, coalesce('from ' || new.start_at, 'not there')) AS problem
FROM subscriptions old
LEFT JOIN subscriptions new ON new.customer_key = old.customer_key AND new.id = old.replaced_by
WHERE old.replaced_by IS NOT NULL AND (new.start_at IS DISTINCT FROM old.end_at OR old.auto_renew)
