DO $$
BEGIN
    IF EXISTS (SELECT FROM invoices WHERE replaces IS NOT NULL) THEN
        RAISE EXCEPTION 'there are reissued invoices';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION refuse_invoice_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changing text[] := ARRAY['payment_status', 'past_due_at', 'amount_past_due', 'amount_paid', 'voided_at'];
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'invoices' THEN
        IF to_jsonb(NEW) - changing = to_jsonb(OLD) - changing THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'issued invoices do not change' USING ERRCODE = 'restrict_violation', CONSTRAINT = 'invoices_immutable';
END
$$;
COMMENT ON FUNCTION refuse_invoice_change IS 'Refuses every change of an issued invoice but of what is paid of it and whether it is voided';

ALTER TABLE invoices
    DROP CONSTRAINT invoices_replaced_check,
    DROP COLUMN replaced_by,
    DROP COLUMN replaces;
