ALTER TABLE lanes DROP COLUMN node_name;
DROP TABLE returned_numbers, lane_reservations, catalogue_position, nodes;
DROP FUNCTION advance_catalogue_position, refuse_catalogue_change;
