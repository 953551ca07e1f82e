ALTER TABLE customers ADD COLUMN position bigint GENERATED ALWAYS AS IDENTITY;
DROP INDEX customers_organization_id_idx;
CREATE INDEX customers_organization_id_idx ON customers (organization_id, position);
ALTER TABLE customers DROP COLUMN list_key;
COMMENT ON COLUMN customers.position IS 'Order of creation; created_at is in the customer''s own time and cannot say it';
