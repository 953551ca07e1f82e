ALTER TABLE billing_records
    DROP COLUMN billed_forgiven,
    DROP COLUMN billed_taxed,
    DROP COLUMN charged_before_switch,
    DROP COLUMN usage_billing;

ALTER TABLE subscriptions ADD COLUMN renewal bigint NOT NULL DEFAULT 0 CHECK (renewal >= 0);
ALTER TABLE subscriptions ALTER COLUMN renewal DROP DEFAULT;
UPDATE subscriptions
SET carried_usage = (
    SELECT coalesce(jsonb_object_agg(carried.key, carried.value -> 'start'), '{}') FROM jsonb_each(carried_usage) carried
);
ALTER TABLE subscriptions
    DROP COLUMN calendar,
    DROP COLUMN chain_began_at,
    DROP COLUMN uncancelled_end_at,
    DROP COLUMN settled_taxed,
    DROP COLUMN settled_forgiven;
COMMENT ON COLUMN subscriptions.anchor_at IS 'Start of the first subscription of the chain of renewals';
COMMENT ON COLUMN subscriptions.renewal IS 'How many renewals lie between the anchor and this period';
COMMENT ON COLUMN subscriptions.carried_usage IS 'Since when usage counts that came along from a replaced subscription, by metric';
