-- What the credit of a reversed payment had paid for another invoice is owed with the invoice that was overpaid, and returns to it
-- when the other one is voided: a third kind of entry.

ALTER TABLE payments
    DROP CONSTRAINT payments_kind_check,
    ADD CONSTRAINT payments_kind_check CHECK (kind IN ('payment', 'reversal', 'returned')) NOT VALID,
    ADD CONSTRAINT payments_returned_check CHECK (kind <> 'returned' OR (credit_id IS NOT NULL AND credited = amount)) NOT VALID;
ALTER TABLE payments VALIDATE CONSTRAINT payments_kind_check, VALIDATE CONSTRAINT payments_returned_check;
COMMENT ON COLUMN payments.credited IS 'What of a payment was more than was due and became the credit; of a reversal, what of that had not paid for other invoices; of a return, all of it';

CREATE OR REPLACE FUNCTION settle_invoice() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    settled numeric := CASE NEW.kind WHEN 'payment' THEN NEW.amount - NEW.credited
        WHEN 'reversal' THEN NEW.credited - NEW.amount ELSE NEW.credited END;
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

-- Payments that were made of what was said to be paid have ids of chance, and all others such of their time.
ALTER TABLE payments DISABLE TRIGGER payments_immutable;
UPDATE payments SET reason = 'noted before there were payments' WHERE substr(id::text, 15, 1) = '4';
ALTER TABLE payments ENABLE TRIGGER payments_immutable;
