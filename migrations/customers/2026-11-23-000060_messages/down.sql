DROP TABLE messages;

CREATE OR REPLACE FUNCTION refuse_invoice_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'invoices' THEN
        IF to_jsonb(NEW) - 'payment_status' = to_jsonb(OLD) - 'payment_status' THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'issued invoices do not change' USING ERRCODE = 'restrict_violation', CONSTRAINT = 'invoices_immutable';
END
$$;
COMMENT ON FUNCTION refuse_invoice_change IS 'Refuses every change of an issued invoice but that of its payment status';

ALTER TABLE invoices DROP COLUMN past_due_at;
