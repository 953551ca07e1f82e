-- What lists of customers go by is made by the program: numbers of a sequence say nothing about customers of another lane.
-- Nothing was released without it, so the table is rewritten at once.
ALTER TABLE customers ADD COLUMN list_key uuid;
UPDATE customers SET list_key = ('00000000-0000-7000-8000-' || lpad(to_hex(position), 12, '0'))::uuid;
ALTER TABLE customers ALTER COLUMN list_key SET NOT NULL;
DROP INDEX customers_organization_id_idx;
CREATE INDEX customers_organization_id_idx ON customers (organization_id, list_key);
ALTER TABLE customers DROP COLUMN position;
COMMENT ON COLUMN customers.list_key IS 'Order of creation, of customers of all lanes: a UUIDv7; created_at is in the customer''s own time and cannot say it';
