-- What it takes to bill right where two features meet: the calendar that intervals follow over renewals and switches, what
-- voided invoices forgave, the tax that each part was billed with, and what a switch handed on or charged before.

ALTER TABLE subscriptions
    ADD COLUMN calendar jsonb,
    ADD COLUMN chain_began_at timestamptz,
    ADD COLUMN uncancelled_end_at timestamptz,
    ADD COLUMN settled_taxed jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN settled_forgiven jsonb NOT NULL DEFAULT '{"charges": 0, "adjustments": 0, "tax": 0}';

UPDATE subscriptions subscription
SET calendar = jsonb_build_object(
        'from', to_char(subscription.anchor_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'day', extract(day FROM subscription.anchor_at AT TIME ZONE 'UTC'),
        'months', coalesce((
            SELECT CASE plan.duration WHEN 'monthly' THEN 1 WHEN 'quarterly' THEN 3 WHEN 'yearly' THEN 12 END
            FROM plans plan
            WHERE plan.organization_id = subscription.organization_id AND plan.id = subscription.plan_id
        ), 0)
    ),
    anchor_at = CASE WHEN subscription.parent_id IS NULL THEN subscription.start_at ELSE subscription.anchor_at END,
    chain_began_at = subscription.created_at,
    carried_usage = (
        SELECT coalesce(jsonb_object_agg(carried.key, jsonb_build_object(
            'start', carried.value,
            'end', to_char(subscription.end_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'full', jsonb_build_object(
                'start', to_char(subscription.full_start_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                'end', to_char(subscription.full_end_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
            )
        )), '{}')
        FROM jsonb_each(subscription.carried_usage) carried
    );

ALTER TABLE subscriptions ALTER COLUMN calendar SET NOT NULL;
ALTER TABLE subscriptions ALTER COLUMN chain_began_at SET NOT NULL;
ALTER TABLE subscriptions ALTER COLUMN settled_forgiven DROP DEFAULT;
ALTER TABLE subscriptions ALTER COLUMN settled_taxed DROP DEFAULT;
ALTER TABLE subscriptions DROP COLUMN renewal;
COMMENT ON COLUMN subscriptions.anchor_at IS 'Where intervals that do not follow the calendar are counted from: the period''s start, before any switch within it';
COMMENT ON COLUMN subscriptions.calendar IS 'What month and year intervals that divide the period are counted by: a boundary (from), the day of the month that is meant, the months of a period';
COMMENT ON COLUMN subscriptions.chain_began_at IS 'When the call was made that began its chain of renewals and switches: no invoice is dated before';
COMMENT ON COLUMN subscriptions.uncancelled_end_at IS 'The end that it had before it was cancelled';
COMMENT ON COLUMN subscriptions.settled_taxed IS 'What was billed after price adjustments and may come back, by the tax that it was billed with';
COMMENT ON COLUMN subscriptions.settled_forgiven IS 'What voided invoices gave of charges, price adjustments and tax: it does not come back';
COMMENT ON COLUMN subscriptions.carried_usage IS 'The reset intervals that run on from a replaced subscription, by metric: since when usage counts, where they end, their whole';

ALTER TABLE billing_records
    ADD COLUMN billed_forgiven numeric NOT NULL DEFAULT 0 CHECK (billed_forgiven >= 0),
    ADD COLUMN billed_taxed jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN charged_before_switch numeric NOT NULL DEFAULT 0,
    ADD COLUMN usage_billing text NOT NULL DEFAULT 'here' CHECK (usage_billing IN ('here', 'handed_on', 'dropped'));
ALTER TABLE billing_records ALTER COLUMN billed_forgiven DROP DEFAULT;
ALTER TABLE billing_records ALTER COLUMN billed_taxed DROP DEFAULT;
ALTER TABLE billing_records ALTER COLUMN charged_before_switch DROP DEFAULT;
ALTER TABLE billing_records ALTER COLUMN usage_billing DROP DEFAULT;
COMMENT ON COLUMN billing_records.billed_forgiven IS 'How much of billed_given was on invoices that were voided: it does not come back';
COMMENT ON COLUMN billing_records.billed_taxed IS 'How much of billed_given may come back, by the tax that it was billed with, in order of billing';
COMMENT ON COLUMN billing_records.charged_before_switch IS 'What full fees of its interval came to before a switch of plans';
COMMENT ON COLUMN billing_records.usage_billing IS 'Whether its usage is billed here, was handed on by a switch, or was dropped by a cancellation';
