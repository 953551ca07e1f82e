ALTER TABLE billing_due DROP COLUMN waits_for_tax_until;
