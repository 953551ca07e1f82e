DO $$
BEGIN
    IF EXISTS (SELECT FROM jobs) THEN
        RAISE EXCEPTION 'there are jobs, which would be forgotten';
    END IF;
END
$$;
DROP TABLE jobs;
