-- Payments in parts, and what came of overpayments, would be lost.
DO $$
BEGIN
    IF EXISTS (SELECT FROM payments) THEN
        RAISE EXCEPTION 'there are payments, and they would be lost';
    END IF;
END
$$;

ALTER TABLE invoices
    DROP CONSTRAINT invoices_amount_paid_check,
    DROP CONSTRAINT invoices_voided_at_check,
    DROP COLUMN amount_past_due,
    DROP COLUMN amount_paid,
    DROP COLUMN voided_at;
COMMENT ON TABLE invoices IS 'Issued invoices; nothing on them ever changes but the payment status';

DROP TABLE payments;
DROP FUNCTION refuse_payment_change;
DROP FUNCTION settle_invoice;

CREATE OR REPLACE FUNCTION refuse_invoice_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'invoices' THEN
        IF to_jsonb(NEW) - 'payment_status' - 'past_due_at' = to_jsonb(OLD) - 'payment_status' - 'past_due_at' THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'issued invoices do not change' USING ERRCODE = 'restrict_violation', CONSTRAINT = 'invoices_immutable';
END
$$;
COMMENT ON FUNCTION refuse_invoice_change IS 'Refuses every change of an issued invoice but that of its payment status';
