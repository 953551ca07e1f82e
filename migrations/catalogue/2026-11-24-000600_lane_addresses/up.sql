-- Where the connections of each lane go.
ALTER TABLE lanes
    ADD COLUMN host text CHECK (host ~ '^[A-Za-z0-9._:/-]{1,253}$'),
    ADD COLUMN port integer CHECK (port BETWEEN 1 AND 65535),
    ADD COLUMN database_name text CHECK (database_name ~ '^[A-Za-z0-9_-]{1,63}$'),
    ADD CONSTRAINT lanes_host_with_port CHECK ((host IS NULL) = (port IS NULL));
COMMENT ON COLUMN lanes.host IS 'The server that connections of the lane go to: a name, an address or the folder of a socket; null: the catalogue''s';
COMMENT ON COLUMN lanes.port IS 'Its port, given with the host';
COMMENT ON COLUMN lanes.database_name IS 'The database as that server calls it; null: by the name that the catalogue''s has';
