DO $$
BEGIN
    IF EXISTS (SELECT FROM books_audits) THEN
        RAISE EXCEPTION 'there are audits of books, which would be forgotten';
    END IF;
END
$$;
DROP TABLE books_audits;
