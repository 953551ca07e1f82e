-- What customers are searched by: the beginning of an id or of a name, letters of ASCII in either case. The collation makes folding
-- and order the same in every database; the length keeps long names out of the index's pages.
CREATE INDEX customers_by_id_idx ON customers
    (organization_id, lower(left(customer_id, 100) COLLATE "C"), customer_key);
CREATE INDEX customers_by_name_idx ON customers
    (organization_id, lower(left(name, 100) COLLATE "C"), customer_key);
