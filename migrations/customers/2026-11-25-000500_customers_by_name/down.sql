DROP INDEX customers_by_name_idx;
DROP INDEX customers_by_id_idx;
