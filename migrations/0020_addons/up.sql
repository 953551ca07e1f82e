-- Add-ons: plans that can only be attached to a subscription, and the subscriptions to them.

ALTER TABLE plans
    ADD COLUMN billing_frequency text CHECK (billing_frequency IN ('one_time', 'recurring')),
    ADD COLUMN invoice_when text CHECK (invoice_when IN ('invoice_on_attach', 'invoice_on_subscription_end')),
    ADD CONSTRAINT plans_addon_check CHECK ((billing_frequency IS NULL) = (invoice_when IS NULL));
COMMENT ON COLUMN plans.billing_frequency IS 'How often an add-on is charged; null: it is a plan, not an add-on';
COMMENT ON COLUMN plans.invoice_when IS 'When what an add-on charges in advance is invoiced';

ALTER TABLE subscriptions
    ADD COLUMN parent_id uuid,
    ADD CONSTRAINT subscriptions_parent_id_fkey FOREIGN KEY (customer_key, parent_id) REFERENCES subscriptions,
    DROP CONSTRAINT subscriptions_overlap_excl,
    -- As before, but that an add-on may be attached to several subscriptions, and more than once to one of them.
    ADD CONSTRAINT subscriptions_overlap_excl EXCLUDE USING gist (
        customer_key WITH =,
        plan_id WITH =,
        md5(filters) WITH =,
        tstzrange(start_at, end_at) WITH &&
    ) WHERE (parent_id IS NULL);
CREATE INDEX subscriptions_parent_id_idx ON subscriptions (customer_key, parent_id);
COMMENT ON COLUMN subscriptions.parent_id IS 'The subscription that an add-on is attached to; null: it is no add-on';
