ALTER TABLE customers DROP COLUMN tax_quotes, DROP COLUMN tax_providers;
