-- A mark on each customer's roll-ups, so that a process can tell whether the sums that it remembers of them still hold.
-- Triggers set it: whoever changes roll-ups, by whatever way, is seen by every process from the commit on.

CREATE TABLE rollup_marks (
    customer_key uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    mark uuid NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE rollup_marks IS 'Another mark with every change of a customer''s rows in usage_rollup; none: they have not changed since there are marks';
COMMENT ON COLUMN rollup_marks.mark IS 'Random, and never the same again: also a database that was restored cannot be taken for a later one';

CREATE FUNCTION mark_rollups() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO rollup_marks (customer_key, organization_id, mark)
    SELECT DISTINCT ON (customer_key) customer_key, organization_id, gen_random_uuid()
    FROM changed
    ORDER BY customer_key
    ON CONFLICT (customer_key) DO UPDATE SET mark = excluded.mark;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION mark_rollups IS 'Gives the roll-ups of each changed row''s customer another mark';

CREATE TRIGGER usage_rollup_mark_inserted AFTER INSERT ON usage_rollup
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_rollups();
CREATE TRIGGER usage_rollup_mark_updated AFTER UPDATE ON usage_rollup
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_rollups();
CREATE TRIGGER usage_rollup_mark_deleted AFTER DELETE ON usage_rollup
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_rollups();
