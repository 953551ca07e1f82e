DROP INDEX billing_records_late_idx;
ALTER TABLE billing_records DROP COLUMN tax_rate;
ALTER TABLE billing_records DROP COLUMN late_until;
