DROP INDEX plan_versions_plan_id_idx;
ALTER TABLE plan_versions
    DROP COLUMN transition_to,
    DROP COLUMN deleted_at,
    ADD CONSTRAINT plan_versions_number_key UNIQUE (organization_id, plan_id, number);
ALTER TABLE plans DROP COLUMN deleted_at;
