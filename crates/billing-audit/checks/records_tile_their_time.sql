SELECT one.id::text AS subject, format('is for time that record %s of the same charge is for too', other.id) AS problem
FROM billing_records one
JOIN billing_records other
    ON other.customer_key = one.customer_key AND other.subscription_id = one.subscription_id AND other.id > one.id
        AND other.recurring_charge_id IS NOT DISTINCT FROM one.recurring_charge_id
        AND other.component_id IS NOT DISTINCT FROM one.component_id
        AND greatest(one.start_at, other.start_at) < least(one.end_at, other.end_at)
