-- What one transaction at a time takes events in for is a range of customer keys, and is called so. Nothing was released with
-- the old name, so it changes at once.
ALTER TABLE event_arrivals RENAME COLUMN lane TO key_range;
ALTER TABLE event_arrivals RENAME CONSTRAINT event_arrivals_lane_check TO event_arrivals_key_range_check;
COMMENT ON TABLE event_arrivals IS 'How far the arrival numbers of an organization''s events have come, by the key range of their customers';
COMMENT ON COLUMN event_arrivals.last_arrival IS 'Goes up in the transaction that stores events, under the key range''s lock: who sees this number sees them all';
