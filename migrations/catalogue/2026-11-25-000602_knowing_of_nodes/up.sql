-- A process that has run since before the first node may take what was seen here for all there is.
CREATE FUNCTION refuse_without_nodes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('billing.knows_of_nodes', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION 'there are nodes, and % is changed by somebody who does not know of them', TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION refuse_without_nodes IS 'Refuses what is right only where all events are in one database; the triggers are made with the first node';
