DO $$
BEGIN
    IF EXISTS (SELECT FROM customers WHERE one_off_lines <> '[]') OR EXISTS (SELECT FROM invoice_lines WHERE trace ->> 'kind' = 'one_off') THEN
        RAISE EXCEPTION 'there are one-off lines';
    END IF;
END
$$;

ALTER TABLE customers DROP COLUMN one_off_lines;
