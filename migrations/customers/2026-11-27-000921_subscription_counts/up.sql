-- How many subscriptions of each plan version run, so that whoever asks does not go through all of them. A trigger keeps it in the transaction
-- that changes a subscription: also that of the program before this one, which may still be at work.
CREATE TABLE subscription_counts (
    organization_id uuid NOT NULL,
    at timestamptz NOT NULL,
    plan_version_id uuid NOT NULL,
    writer integer NOT NULL,
    starts bigint NOT NULL,
    ends bigint NOT NULL,
    PRIMARY KEY (organization_id, at, plan_version_id, writer)
);
COMMENT ON TABLE subscription_counts IS 'How many subscriptions end, and how many are still to start, without those of customers under a test clock; whoever asks reads what is ahead, which are no more rows than subscriptions';
COMMENT ON COLUMN subscription_counts.at IS 'The very start of subscriptions; or the end of the quarter of an hour in which they end, its last instant included: local days end with one wherever they do';
COMMENT ON COLUMN subscription_counts.writer IS 'The process of Postgres that has added to it: no two transactions write one row at a time, so none waits for another';
COMMENT ON COLUMN subscription_counts.starts IS 'Subscriptions that start later than they were made; one that has started is not looked for any more';
COMMENT ON COLUMN subscription_counts.ends IS 'Subscriptions that end; whoever moves an end takes it off here, so one row may be below 0';
-- Few rows that are written again and again.
ALTER TABLE subscription_counts SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);

CREATE FUNCTION count_subscription() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO subscription_counts AS known (organization_id, at, plan_version_id, writer, starts, ends)
    SELECT changed.organization_id, counted.at, changed.plan_version_id, pg_backend_pid(), sum(counted.starts), sum(counted.ends)
    FROM (VALUES
        (OLD.customer_key, OLD.organization_id, OLD.plan_version_id, OLD.start_at, OLD.end_at, -1),
        (NEW.customer_key, NEW.organization_id, NEW.plan_version_id, NEW.start_at, NEW.end_at, 1)
    ) AS changed (customer_key, organization_id, plan_version_id, start_at, end_at, one)
    JOIN customers customer ON customer.customer_key = changed.customer_key AND customer.test_clock_id IS NULL
    CROSS JOIN LATERAL (VALUES
        (changed.start_at, changed.one, 0),
        (quarter_of_hour_before(changed.end_at - interval '1 microsecond') + interval '15 minutes', 0, changed.one)
    ) AS counted (at, starts, ends)
    WHERE counted.ends <> 0 OR counted.at > clock_timestamp()
    GROUP BY 1, 2, 3
    ON CONFLICT (organization_id, at, plan_version_id, writer)
        DO UPDATE SET starts = known.starts + excluded.starts, ends = known.ends + excluded.ends;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION count_subscription IS 'Counts where a subscription starts and ends, and no longer where it did before';

CREATE TRIGGER subscriptions_counted AFTER INSERT OR DELETE ON subscriptions
    FOR EACH ROW EXECUTE FUNCTION count_subscription();
CREATE TRIGGER subscriptions_counted_anew AFTER UPDATE OF start_at, end_at, plan_version_id ON subscriptions
    FOR EACH ROW WHEN (
        OLD.start_at <> NEW.start_at OR OLD.end_at <> NEW.end_at OR OLD.plan_version_id <> NEW.plan_version_id
    ) EXECUTE FUNCTION count_subscription();

-- Nothing can be subscribed to meanwhile, since the triggers hold the table: about two seconds for a million subscriptions.
INSERT INTO subscription_counts (organization_id, at, plan_version_id, writer, starts, ends)
SELECT subscription.organization_id, counted.at, subscription.plan_version_id, 0, sum(counted.starts), sum(counted.ends)
FROM subscriptions subscription
JOIN customers customer USING (customer_key)
CROSS JOIN LATERAL (VALUES
    (subscription.start_at, 1, 0),
    (quarter_of_hour_before(subscription.end_at - interval '1 microsecond') + interval '15 minutes', 0, 1)
) AS counted (at, starts, ends)
WHERE customer.test_clock_id IS NULL AND counted.at > statement_timestamp()
GROUP BY 1, 2, 3;
