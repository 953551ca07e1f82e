ALTER TABLE metric_rollups DROP COLUMN filled_to;
