DROP SCHEMA custom_metric CASCADE;
DROP FUNCTION deltas_of_hour;
DROP FUNCTION property_text;
DROP FUNCTION property_number;
DROP FUNCTION bounded_number;
DROP EXTENSION btree_gist;
