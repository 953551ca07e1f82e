DO $$
BEGIN
    IF EXISTS (SELECT FROM event_corrections WHERE job_id IS NOT NULL) THEN
        RAISE EXCEPTION 'events were corrected by jobs, which would be forgotten';
    END IF;
END
$$;
DROP INDEX event_corrections_job_id_idx;
ALTER TABLE event_corrections DROP COLUMN job_id;
