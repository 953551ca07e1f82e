ALTER TABLE organizations DROP COLUMN on_tax_failure, DROP COLUMN tax_hook, DROP COLUMN tax_providers;
