DO $$
BEGIN
    IF EXISTS (SELECT FROM approvals) OR EXISTS (SELECT FROM organizations WHERE approval_limit IS NOT NULL) THEN
        RAISE EXCEPTION 'there are requests for a second person or limits that ask for one, which would be forgotten';
    END IF;
END
$$;
DROP TABLE approvals;
ALTER TABLE organizations DROP COLUMN approval_limit;
