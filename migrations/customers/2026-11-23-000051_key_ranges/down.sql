COMMENT ON COLUMN event_arrivals.last_arrival IS 'Goes up in the transaction that stores events, under the lane''s lock: who sees this number sees them all';
COMMENT ON TABLE event_arrivals IS 'How far the arrival numbers of an organization''s events have come, by the lane of their customers';
ALTER TABLE event_arrivals RENAME CONSTRAINT event_arrivals_key_range_check TO event_arrivals_lane_check;
ALTER TABLE event_arrivals RENAME COLUMN key_range TO lane;
