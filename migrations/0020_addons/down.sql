ALTER TABLE subscriptions
    DROP CONSTRAINT subscriptions_overlap_excl,
    DROP COLUMN parent_id,
    ADD CONSTRAINT subscriptions_overlap_excl EXCLUDE USING gist (
        customer_key WITH =,
        plan_id WITH =,
        md5(filters) WITH =,
        tstzrange(start_at, end_at) WITH &&
    );
ALTER TABLE plans DROP COLUMN billing_frequency, DROP COLUMN invoice_when;
