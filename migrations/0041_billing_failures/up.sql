-- A customer whose billing fails is tried again ever later, and at last left alone until somebody has looked at it.

ALTER TABLE billing_due ADD COLUMN failures bigint NOT NULL DEFAULT 0 CHECK (failures >= 0);
ALTER TABLE billing_due ADD COLUMN failure text;
ALTER TABLE billing_due ADD COLUMN failed_at timestamptz;
ALTER TABLE billing_due ADD COLUMN is_parked boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN billing_due.claimed_until IS 'Until then a worker has the row, or it waits after a failure; null: nobody';
COMMENT ON COLUMN billing_due.failures IS 'How often in a row its billing has failed';
COMMENT ON COLUMN billing_due.failure IS 'Why it failed the last time';
COMMENT ON COLUMN billing_due.failed_at IS 'When it failed the last time';
COMMENT ON COLUMN billing_due.is_parked IS 'Whether it is left alone because it failed too often';
