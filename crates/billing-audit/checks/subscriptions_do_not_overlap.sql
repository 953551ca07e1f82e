SELECT one.id::text AS subject, format('overlaps %s', other.id) AS problem
FROM subscriptions one
JOIN subscriptions other
    ON other.customer_key = one.customer_key AND other.plan_id = one.plan_id AND other.id > one.id
        AND greatest(one.start_at, other.start_at) < least(one.end_at, other.end_at)
-- An add-on may be attached more than once.
WHERE one.parent_id IS NULL AND other.parent_id IS NULL
    AND (one.filters::jsonb @> other.filters::jsonb OR other.filters::jsonb @> one.filters::jsonb)
