-- Where the rows of each lane of customers are.
CREATE TABLE lanes (
    number smallint CONSTRAINT lanes_pkey PRIMARY KEY CHECK (number BETWEEN 0 AND 63),
    schema_name text NOT NULL CONSTRAINT lanes_schema_name_key UNIQUE CHECK (schema_name ~ '^[a-z_][a-z0-9_]{0,62}$'),
    role_name text CHECK (role_name ~ '^[a-z_][a-z0-9_]{0,62}$')
);
COMMENT ON TABLE lanes IS 'The lanes that customers are divided into: 1, 2, 4 .. 64, fixed when the database is made';
COMMENT ON COLUMN lanes.number IS 'A customer''s lane is the top bits of its key, as many as lanes take';
COMMENT ON COLUMN lanes.schema_name IS 'The schema that holds all that the lane''s customers own';
COMMENT ON COLUMN lanes.role_name IS 'The role as which the service works there, with rights on the catalogue and on no other lane; null: as itself';
