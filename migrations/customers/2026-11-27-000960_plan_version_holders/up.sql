-- Who holds a plan version is listed by end and id: very many subscriptions end at the same instant.
DROP INDEX subscriptions_plan_version_id_idx;
CREATE INDEX subscriptions_plan_version_id_idx ON subscriptions (organization_id, plan_version_id, end_at, id);
