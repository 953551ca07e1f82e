CREATE OR REPLACE FUNCTION refuse_invoice_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changing text[] := ARRAY['payment_status', 'past_due_at', 'amount_past_due', 'amount_paid', 'voided_at', 'replaced_by'];
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'invoices' THEN
        IF to_jsonb(NEW) - changing = to_jsonb(OLD) - changing AND (NEW.replaced_by IS NOT DISTINCT FROM OLD.replaced_by OR OLD.voided_at IS NULL) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'issued invoices do not change' USING ERRCODE = 'restrict_violation', CONSTRAINT = 'invoices_immutable';
END
$$;

CREATE OR REPLACE FUNCTION refuse_credit_note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'credit_notes' THEN
        IF to_jsonb(NEW) - 'voided_at' = to_jsonb(OLD) - 'voided_at' AND to_jsonb(OLD) ->> 'voided_at' IS NULL THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'credit notes do not change' USING ERRCODE = 'restrict_violation', CONSTRAINT = 'credit_notes_immutable';
END
$$;
