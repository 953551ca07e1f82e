-- Customers can be deleted: id, e-mail address, invoices and credits stay.

ALTER TABLE customers ADD COLUMN deleted_at timestamptz;
COMMENT ON COLUMN customers.deleted_at IS 'From when on it is found by nobody; id and e-mail address stay taken';
