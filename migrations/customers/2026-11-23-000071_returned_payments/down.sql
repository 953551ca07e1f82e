-- What returned would be lost.
DO $$
BEGIN
    IF EXISTS (SELECT FROM payments WHERE kind = 'returned') THEN
        RAISE EXCEPTION 'credit was returned to invoices, and that would be lost';
    END IF;
END
$$;

ALTER TABLE payments
    DROP CONSTRAINT payments_returned_check,
    DROP CONSTRAINT payments_kind_check,
    ADD CONSTRAINT payments_kind_check CHECK (kind IN ('payment', 'reversal'));
COMMENT ON COLUMN payments.credited IS 'What of a payment was more than was due and became the credit; of a reversal, what of that had not paid for other invoices';

CREATE OR REPLACE FUNCTION settle_invoice() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    settled numeric := CASE NEW.kind WHEN 'payment' THEN NEW.amount - NEW.credited ELSE NEW.credited - NEW.amount END;
BEGIN
    UPDATE invoices
    SET amount_paid = amount_paid + settled,
        payment_status = CASE WHEN amount_paid + settled = amount THEN 'paid' ELSE 'unpaid' END
    WHERE customer_key = NEW.customer_key AND id = NEW.invoice_id AND payment_status <> 'voided';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'invoice % was voided', NEW.invoice_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payments_of_voided_invoice';
    END IF;
    RETURN NULL;
END
$$;

ALTER TABLE payments DISABLE TRIGGER payments_immutable;
UPDATE payments SET reason = NULL WHERE substr(id::text, 15, 1) = '4';
ALTER TABLE payments ENABLE TRIGGER payments_immutable;
