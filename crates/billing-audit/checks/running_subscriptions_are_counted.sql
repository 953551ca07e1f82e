-- How many subscriptions of each plan version run, counted again one by one: without those of customers under a test clock, who live at another time.
WITH present AS (
    SELECT statement_timestamp() AS now, quarter_of_hour_before(statement_timestamp()) AS quarter
), running AS (
    SELECT organization_id, plan_version_id, count(*) AS running
    FROM subscriptions subscription
    JOIN customers customer USING (organization_id, customer_key)
    CROSS JOIN present
    WHERE subscription.start_at <= now AND subscription.end_at > now AND customer.test_clock_id IS NULL
    GROUP BY 1, 2
), ended AS (
    SELECT organization_id, plan_version_id, count(*) AS ended
    FROM subscriptions subscription
    JOIN customers customer USING (organization_id, customer_key)
    CROSS JOIN present
    WHERE subscription.end_at > quarter AND subscription.end_at <= now AND customer.test_clock_id IS NULL
    GROUP BY 1, 2
), counted AS (
    SELECT organization_id, plan_version_id, sum(ends) - coalesce(sum(starts) FILTER (WHERE at > now), 0) AS counted
    FROM subscription_counts
    CROSS JOIN present
    WHERE at > quarter
    GROUP BY 1, 2
)
SELECT plan_version_id::text AS subject,
    format('%s subscriptions run, and %s are counted', coalesce(running, 0), coalesce(counted, 0) - coalesce(ended, 0)) AS problem
FROM running
FULL JOIN counted USING (organization_id, plan_version_id)
FULL JOIN ended USING (organization_id, plan_version_id)
WHERE coalesce(running, 0) <> coalesce(counted, 0) - coalesce(ended, 0)
