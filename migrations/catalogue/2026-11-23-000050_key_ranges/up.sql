-- What one transaction at a time takes events in for is a range of customer keys, and is called so. Nothing was released with
-- the old name, so it changes at once.
ALTER TABLE ingest_lanes RENAME TO ingest_key_ranges;
ALTER TABLE ingest_key_ranges RENAME COLUMN lane_bits TO range_bits;
ALTER TABLE ingest_key_ranges RENAME CONSTRAINT ingest_lanes_pkey TO ingest_key_ranges_pkey;
ALTER TABLE ingest_key_ranges RENAME CONSTRAINT ingest_lanes_is_only_check TO ingest_key_ranges_is_only_check;
ALTER TABLE ingest_key_ranges RENAME CONSTRAINT ingest_lanes_lane_bits_check TO ingest_key_ranges_range_bits_check;
COMMENT ON TABLE ingest_key_ranges IS 'Into how many key ranges customers are divided; one row, fixed once there are events';
COMMENT ON COLUMN ingest_key_ranges.range_bits IS 'A customer''s key range is this many top bits of its key; whoever stores events holds the key range''s lock';
