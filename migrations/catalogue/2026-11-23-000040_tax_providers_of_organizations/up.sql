-- Who knows tax rates, and what happens when nobody does.
ALTER TABLE organizations
    ADD COLUMN tax_providers text[] NOT NULL DEFAULT '{flat_rate}',
    ADD COLUMN tax_hook jsonb,
    ADD COLUMN on_tax_failure text NOT NULL DEFAULT 'wait' CHECK (on_tax_failure IN ('wait', 'bill_untaxed'));
COMMENT ON COLUMN organizations.tax_providers IS 'Who is asked for tax rates, in order, after those that the customer names';
COMMENT ON COLUMN organizations.tax_hook IS 'Address and secret of the organization''s own provider; null: none';
COMMENT ON COLUMN organizations.on_tax_failure IS 'What becomes of an invoice when it fails';
