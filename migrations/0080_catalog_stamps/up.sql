-- A stamp on each organization's catalogue, so that a process can tell whether what it remembers of it still holds.
-- Triggers set it: whoever changes the catalogue, by whatever way, is seen by every process from the commit on.

CREATE TABLE catalog_stamps (
    organization_id uuid PRIMARY KEY CONSTRAINT catalog_stamps_organization_id_fkey REFERENCES organizations,
    stamp uuid NOT NULL
);
COMMENT ON TABLE catalog_stamps IS 'Another stamp with every change of an organization''s catalogue, so that it can be remembered';
COMMENT ON COLUMN catalog_stamps.stamp IS 'Random, and never the same again: also a database that was restored cannot be taken for a later one';

CREATE FUNCTION stamp_catalog() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed jsonb := to_jsonb(coalesce(NEW, OLD));
BEGIN
    INSERT INTO catalog_stamps (organization_id, stamp)
    VALUES (coalesce(changed ->> 'organization_id', changed ->> 'id')::uuid, gen_random_uuid())
    ON CONFLICT (organization_id) DO UPDATE SET stamp = excluded.stamp;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION stamp_catalog IS 'Gives the catalogue of the changed row''s organization another stamp';

-- An organization that still has a catalogue cannot be deleted.
CREATE TRIGGER organizations_stamp AFTER INSERT OR UPDATE ON organizations
    FOR EACH ROW EXECUTE FUNCTION stamp_catalog();
CREATE TRIGGER currencies_stamp AFTER INSERT OR UPDATE OR DELETE ON currencies
    FOR EACH ROW EXECUTE FUNCTION stamp_catalog();
CREATE TRIGGER metrics_stamp AFTER INSERT OR UPDATE OR DELETE ON metrics
    FOR EACH ROW EXECUTE FUNCTION stamp_catalog();
CREATE TRIGGER plans_stamp AFTER INSERT OR UPDATE OR DELETE ON plans
    FOR EACH ROW EXECUTE FUNCTION stamp_catalog();
CREATE TRIGGER plan_versions_stamp AFTER INSERT OR UPDATE OR DELETE ON plan_versions
    FOR EACH ROW EXECUTE FUNCTION stamp_catalog();
CREATE TRIGGER components_stamp AFTER INSERT OR UPDATE OR DELETE ON components
    FOR EACH ROW EXECUTE FUNCTION stamp_catalog();
CREATE TRIGGER recurring_charges_stamp AFTER INSERT OR UPDATE OR DELETE ON recurring_charges
    FOR EACH ROW EXECUTE FUNCTION stamp_catalog();
CREATE TRIGGER plan_version_features_stamp AFTER INSERT OR UPDATE OR DELETE ON plan_version_features
    FOR EACH ROW EXECUTE FUNCTION stamp_catalog();
CREATE TRIGGER plan_version_targets_stamp AFTER INSERT OR UPDATE OR DELETE ON plan_version_targets
    FOR EACH ROW EXECUTE FUNCTION stamp_catalog();
