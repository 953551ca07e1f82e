-- A mark on what each customer holds, and what is ahead of a customer's clock: with both, a process can answer a question
-- about usage out of what it remembers, by one statement that says whether all of it still holds.

CREATE TABLE subscription_marks (
    customer_key uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    mark uuid NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE subscription_marks IS 'Another mark with every change of a customer''s rows in subscriptions; none: they have not changed since there are marks';
COMMENT ON COLUMN subscription_marks.mark IS 'Random, and never the same again: also a database that was restored cannot be taken for a later one';

CREATE FUNCTION mark_subscriptions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO subscription_marks (customer_key, organization_id, mark)
    SELECT DISTINCT ON (customer_key) customer_key, organization_id, gen_random_uuid()
    FROM changed
    ORDER BY customer_key
    ON CONFLICT (customer_key) DO UPDATE SET mark = excluded.mark;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION mark_subscriptions IS 'Gives what the customer of each changed row holds another mark';

CREATE TRIGGER subscriptions_mark_inserted AFTER INSERT ON subscriptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_subscriptions();
CREATE TRIGGER subscriptions_mark_updated AFTER UPDATE ON subscriptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_subscriptions();
CREATE TRIGGER subscriptions_mark_deleted AFTER DELETE ON subscriptions
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_subscriptions();

-- In a language of its own, so that whoever calls it does not have the months of events in its own plan.
CREATE FUNCTION has_events_ahead(owner uuid, customer uuid, name text, at timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM events event
        WHERE event.customer_key = customer
            AND event.time_created > at
            AND event.time_created < date_trunc('hour', at, 'UTC') + interval '1 hour'
            AND event.event_name = name
            AND event.organization_id = owner
    );
END
$$;
COMMENT ON FUNCTION has_events_ahead IS 'Whether a customer has events of a name that are dated later than an instant, but within its hour';
