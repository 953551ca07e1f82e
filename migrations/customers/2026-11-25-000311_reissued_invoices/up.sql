-- An invoice that is voided may have another issued in its place, which bills the same again: each names the other. Both are written in one
-- transaction, the voided one first.

ALTER TABLE invoices
    ADD COLUMN replaces uuid,
    ADD COLUMN replaced_by uuid,
    ADD CONSTRAINT invoices_replaces_key UNIQUE (customer_key, replaces),
    ADD CONSTRAINT invoices_replaced_by_key UNIQUE (customer_key, replaced_by),
    ADD CONSTRAINT invoices_replaces_fkey FOREIGN KEY (customer_key, replaces) REFERENCES invoices,
    ADD CONSTRAINT invoices_replaced_by_fkey FOREIGN KEY (customer_key, replaced_by) REFERENCES invoices DEFERRABLE INITIALLY DEFERRED,
    ADD CONSTRAINT invoices_replaced_check CHECK (replaced_by IS NULL OR payment_status = 'voided');
COMMENT ON COLUMN invoices.replaces IS 'The voided invoice in whose place it was issued';
COMMENT ON COLUMN invoices.replaced_by IS 'The invoice that was issued in its place when it was voided, and bills the same again';

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
COMMENT ON FUNCTION refuse_invoice_change IS 'Refuses every change of an issued invoice but of what is paid of it, whether it is voided and what replaces it';
