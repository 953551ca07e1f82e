-- Who knows a customer's tax rate, and what the organization's own provider has said.
ALTER TABLE customers
    ADD COLUMN tax_providers text[] NOT NULL DEFAULT '{}',
    ADD COLUMN tax_quotes jsonb NOT NULL DEFAULT '[]';
COMMENT ON COLUMN customers.tax_providers IS 'Who is asked for tax rates before those that the organization names';
COMMENT ON COLUMN customers.tax_quotes IS 'The latest answers of the organization''s own provider, each with the time it is good for';
