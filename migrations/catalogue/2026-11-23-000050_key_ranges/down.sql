COMMENT ON COLUMN ingest_key_ranges.range_bits IS 'A customer''s lane is this many top bits of its key; whoever stores events holds the lane''s lock';
COMMENT ON TABLE ingest_key_ranges IS 'Into how many lanes customers are divided; one row, fixed once there are events';
ALTER TABLE ingest_key_ranges RENAME CONSTRAINT ingest_key_ranges_range_bits_check TO ingest_lanes_lane_bits_check;
ALTER TABLE ingest_key_ranges RENAME CONSTRAINT ingest_key_ranges_is_only_check TO ingest_lanes_is_only_check;
ALTER TABLE ingest_key_ranges RENAME CONSTRAINT ingest_key_ranges_pkey TO ingest_lanes_pkey;
ALTER TABLE ingest_key_ranges RENAME COLUMN range_bits TO lane_bits;
ALTER TABLE ingest_key_ranges RENAME TO ingest_lanes;
