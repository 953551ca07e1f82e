-- Month and year intervals that divide a subscription's period begin and end on boundaries of its calendar: on the day of the
-- month that is meant, or a shorter month's last, a whole number of intervals apart. Only the subscription's own start and
-- end, and what a switch carried over, cut them. (That no two of one charge overlap is said by another check.)
WITH interval_of AS (
    SELECT organization_id, id, reset_interval_unit AS unit, reset_interval_count AS count FROM recurring_charges
    UNION ALL
    SELECT organization_id, id, reset_interval_unit, reset_interval_count FROM components
),
dividing AS (
    SELECT record.id, record.subscription_id, bound.name, bound.at, subscription.start_at, subscription.end_at, subscription.uncancelled_end_at,
        record.carried_at, (subscription.calendar ->> 'from')::timestamptz AS calendar_from,
        (subscription.calendar ->> 'day')::integer AS calendar_day,
        (interval_of.count * CASE interval_of.unit WHEN 'month' THEN 1 ELSE 12 END)::integer AS months
    FROM (
        SELECT record.*, EXISTS (
            SELECT FROM subscriptions holder
            CROSS JOIN LATERAL jsonb_each(holder.carried_usage) carried
            WHERE holder.customer_key = record.customer_key AND holder.id = record.subscription_id
                AND (carried.value ->> 'start')::timestamptz = record.start_at
        ) AS carried_at
        FROM billing_records record
    ) record
    JOIN subscriptions subscription
        ON subscription.customer_key = record.customer_key AND subscription.id = record.subscription_id
    JOIN interval_of
        ON interval_of.organization_id = record.organization_id
            AND interval_of.id = coalesce(record.recurring_charge_id, record.component_id)
    CROSS JOIN LATERAL (VALUES ('begins', record.start_at), ('ends', record.end_at)) bound (name, at)
    WHERE interval_of.unit IN ('month', 'year') AND record.end_at > record.start_at
        AND (subscription.calendar ->> 'months')::integer > 0
        AND (subscription.calendar ->> 'months')::integer
            % (interval_of.count * CASE interval_of.unit WHEN 'month' THEN 1 ELSE 12 END)::integer = 0
),
placed AS (
    SELECT dividing.*, at AT TIME ZONE 'UTC' AS local, calendar_from AT TIME ZONE 'UTC' AS local_from
    FROM dividing
    WHERE NOT carried_at AND at NOT IN (start_at, end_at) AND at IS DISTINCT FROM uncancelled_end_at
)
SELECT id::text AS subject, format('%s at %s, no boundary of the calendar of subscription %s', name, at, subscription_id) AS problem
FROM placed
WHERE local::time <> local_from::time
    OR extract(day FROM local)
        <> least(calendar_day, extract(day FROM date_trunc('month', local) + interval '1 month' - interval '1 day'))
    OR ((extract(year FROM local) - extract(year FROM local_from)) * 12 + extract(month FROM local) - extract(month FROM local_from))::integer
        % months <> 0
