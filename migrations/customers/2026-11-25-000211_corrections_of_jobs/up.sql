-- Which job corrected an event, so that it can be told how many it has corrected.

ALTER TABLE event_corrections ADD COLUMN job_id uuid;
CREATE INDEX event_corrections_job_id_idx ON event_corrections (organization_id, job_id) WHERE job_id IS NOT NULL;
COMMENT ON COLUMN event_corrections.job_id IS 'The job that corrected it, if one did. No foreign key: jobs are in the catalogue';
