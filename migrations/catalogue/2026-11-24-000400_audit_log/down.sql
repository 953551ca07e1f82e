DO $$
BEGIN
    IF EXISTS (SELECT FROM organization_audit_entries) THEN
        RAISE EXCEPTION 'the audit log has entries that would be lost';
    END IF;
END
$$;
DROP TABLE organization_audit_entries;
DROP FUNCTION refuse_audit_change();
