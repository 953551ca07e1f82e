-- The program alone says which aggregations there are: a new one is no matter of the schema.
ALTER TABLE metrics DROP CONSTRAINT metrics_aggregation_type_check;
