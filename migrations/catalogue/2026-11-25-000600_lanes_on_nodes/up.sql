-- Lanes on servers of their own: which servers there are, how far the catalogue has come, and what a lane that is elsewhere has
-- reserved here for a transaction that is not known to be committed yet.

CREATE TABLE nodes (
    name text CONSTRAINT nodes_pkey PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9_]{0,30}$'),
    host text NOT NULL CHECK (host ~ '^[A-Za-z0-9._:/-]{1,253}$'),
    port integer NOT NULL CHECK (port BETWEEN 1 AND 65535),
    database_name text NOT NULL CHECK (database_name ~ '^[A-Za-z0-9_-]{1,63}$'),
    system_identifier bigint NOT NULL,
    database_number bigint NOT NULL
);
COMMENT ON TABLE nodes IS 'Servers beside this one that lanes can be on; each has a copy of the catalogue';
COMMENT ON COLUMN nodes.host IS 'A name, an address or the folder of a socket; who connects is said by the URL of this database';
COMMENT ON COLUMN nodes.system_identifier IS 'Which server it is, whatever name leads there';
COMMENT ON COLUMN nodes.database_number IS 'Which database of that server it is';

ALTER TABLE lanes ADD COLUMN node_name text CONSTRAINT lanes_node_name_fkey REFERENCES nodes;
ALTER TABLE lanes ADD CONSTRAINT lanes_node_without_address CHECK (node_name IS NULL OR host IS NULL AND database_name IS NULL);
CREATE INDEX lanes_node_name_idx ON lanes (node_name);
COMMENT ON COLUMN lanes.node_name IS 'The node that the lane is on; null: it is in this database';

CREATE TABLE catalogue_position (
    is_only boolean DEFAULT true CONSTRAINT catalogue_position_pkey PRIMARY KEY CHECK (is_only),
    position bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO catalogue_position (position) VALUES (0);
COMMENT ON TABLE catalogue_position IS 'How often what nodes have a copy of was changed: a copy with the same number has all of it';

CREATE FUNCTION advance_catalogue_position() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    -- Once in a transaction, whatever it changes.
    IF current_setting('billing.position_moved_by', true) IS DISTINCT FROM pg_current_xact_id()::text THEN
        UPDATE catalogue_position SET position = position + 1;
        PERFORM set_config('billing.position_moved_by', pg_current_xact_id()::text, true);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION advance_catalogue_position IS 'Counts a change of what nodes have a copy of; the triggers are made with the first node';

CREATE FUNCTION refuse_catalogue_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'this is a copy of the catalogue, and % is changed at home', TG_TABLE_NAME;
END
$$;
COMMENT ON FUNCTION refuse_catalogue_change IS 'Keeps everybody but replication from changing a copy of the catalogue';

CREATE TABLE lane_reservations (
    token uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('email', 'leaving_email', 'invoice_number', 'credit_note_number', 'idempotency_key')),
    name text NOT NULL,
    lane_number smallint NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT lane_reservations_organization_id_fkey REFERENCES organizations,
    customer_key uuid,
    sequence bigint,
    reserved_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT lane_reservations_pkey PRIMARY KEY (token, kind, name)
);
CREATE INDEX lane_reservations_organization_id_idx ON lane_reservations (organization_id, customer_key);
CREATE INDEX lane_reservations_reserved_at_idx ON lane_reservations (reserved_at);
COMMENT ON TABLE lane_reservations IS 'What lanes on nodes have taken here for transactions that are not known to be committed yet';
COMMENT ON COLUMN lane_reservations.token IS 'Stands in lane_tokens of the lane exactly when the transaction is committed, or was given up';
COMMENT ON COLUMN lane_reservations.name IS 'The address, the number or the key';
COMMENT ON COLUMN lane_reservations.sequence IS 'Of a number: its place in the sequence that has no gaps';

CREATE TABLE returned_numbers (
    organization_id uuid NOT NULL CONSTRAINT returned_numbers_organization_id_fkey REFERENCES organizations,
    kind text NOT NULL CHECK (kind IN ('invoice_number', 'credit_note_number')),
    sequence bigint NOT NULL,
    CONSTRAINT returned_numbers_pkey PRIMARY KEY (organization_id, kind, sequence)
);
COMMENT ON TABLE returned_numbers IS 'Numbers whose transaction was given up: they are the next ones to be used, since numbers have no gap';

-- Few rows that are written again and again.
ALTER TABLE lane_reservations SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE returned_numbers SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE catalogue_position SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
