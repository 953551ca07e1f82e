-- Usage that was billed is looked at again while late events may arrive, and what is taken back or comes late is taxed
-- as what was billed.

ALTER TABLE billing_records ADD COLUMN late_until timestamptz;
ALTER TABLE billing_records ADD COLUMN tax_rate numeric;
COMMENT ON COLUMN billing_records.late_until IS 'Until when events of its time may still arrive after all of it was billed; null: none are looked for';
COMMENT ON COLUMN billing_records.tax_rate IS 'The sales tax in percent of what was billed of it last, 0 when there was none; null: nothing was billed yet';
CREATE INDEX billing_records_late_idx ON billing_records (customer_key, late_until) WHERE late_until IS NOT NULL;

-- Usage billed before today may get late events too; what was dropped by a cancellation may not.
UPDATE billing_records record
SET late_until = record.end_at + make_interval(days => organization.event_window_days), revision = record.revision + 1
FROM organizations organization, subscriptions subscription
WHERE organization.id = record.organization_id
    AND subscription.customer_key = record.customer_key AND subscription.id = record.subscription_id
    AND subscription.usage_behavior IS DISTINCT FROM 'bill_none'
    AND record.component_id IS NOT NULL
    AND record.next_invoicing_at IS NULL
    AND record.end_at > record.start_at
    AND record.end_at + make_interval(days => organization.event_window_days) > clock_timestamp();

INSERT INTO billing_due (customer_key, organization_id, due_at)
SELECT record.customer_key, record.organization_id, min(record.late_until)
FROM billing_records record
JOIN customers customer USING (customer_key)
WHERE record.late_until IS NOT NULL AND customer.test_clock_id IS NULL
GROUP BY record.customer_key, record.organization_id
ON CONFLICT (customer_key) DO UPDATE SET due_at = least(billing_due.due_at, excluded.due_at);
