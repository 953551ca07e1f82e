-- Plans and versions can be changed, deleted, and point their subscriptions to another plan.

ALTER TABLE plans ADD COLUMN deleted_at timestamptz;
COMMENT ON COLUMN plans.deleted_at IS 'From when on nobody can subscribe to it; the row stays for what was billed';

ALTER TABLE plan_versions
    ADD COLUMN transition_to uuid,
    ADD COLUMN deleted_at timestamptz,
    ADD CONSTRAINT plan_versions_transition_to_fkey FOREIGN KEY (organization_id, transition_to) REFERENCES plans,
    -- One number may exist once in every currency, and for every customer that a version is made for; the
    -- catalogue's lock keeps it so.
    DROP CONSTRAINT plan_versions_number_key;
CREATE INDEX plan_versions_plan_id_idx ON plan_versions (organization_id, plan_id, number);
CREATE INDEX plan_versions_transition_to_idx ON plan_versions (organization_id, transition_to);
COMMENT ON COLUMN plan_versions.transition_to IS 'The plan that its subscriptions renew to; it comes before replace_with';
COMMENT ON COLUMN plan_versions.deleted_at IS 'From when on nobody can subscribe to it; the row stays for what was billed';
