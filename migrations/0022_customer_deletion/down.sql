ALTER TABLE customers DROP COLUMN deleted_at;
