-- How far the roll-ups of a metric that was made after its events have been filled in.

ALTER TABLE metric_rollups ADD COLUMN filled_to uuid;
COMMENT ON COLUMN metric_rollups.filled_to IS 'Of roll-ups that are not complete: those of customers with keys up to this one are';
