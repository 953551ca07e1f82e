ALTER TABLE billing_due DROP COLUMN is_parked;
ALTER TABLE billing_due DROP COLUMN failed_at;
ALTER TABLE billing_due DROP COLUMN failure;
ALTER TABLE billing_due DROP COLUMN failures;
COMMENT ON COLUMN billing_due.claimed_until IS 'Until then a worker has the row; null: nobody';
