DO $$
BEGIN
    IF EXISTS (SELECT FROM credit_notes WHERE is_correction) THEN
        RAISE EXCEPTION 'there are credit notes that correct';
    END IF;
END
$$;
ALTER TABLE credit_notes DROP COLUMN is_correction;
