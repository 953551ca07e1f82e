DROP INDEX subscriptions_plan_version_id_idx;
CREATE INDEX subscriptions_plan_version_id_idx ON subscriptions (organization_id, plan_version_id, end_at);
