-- Whoever needs a tax rate while their organization's provider is busy or down is told from those who need none, and who are billed on.

ALTER TABLE billing_due ADD COLUMN waits_for_tax_until timestamptz;
COMMENT ON COLUMN billing_due.waits_for_tax_until IS 'Until then it is left alone while enough of its organization waits for tax rates; null: it is not known to need one';
