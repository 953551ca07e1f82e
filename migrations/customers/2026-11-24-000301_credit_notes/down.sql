DO $$
BEGIN
    IF EXISTS (SELECT FROM credit_notes) THEN
        RAISE EXCEPTION 'there are credit notes, and they would be lost';
    END IF;
END
$$;

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

ALTER TABLE payments
    DROP CONSTRAINT payments_credit_note_id_key,
    DROP CONSTRAINT payments_credit_note_id_fkey,
    DROP CONSTRAINT payments_credit_note_check,
    DROP CONSTRAINT payments_credited_check,
    DROP CONSTRAINT payments_kind_check,
    ADD CONSTRAINT payments_kind_check CHECK (kind IN ('payment', 'reversal', 'returned')),
    ADD CONSTRAINT payments_credited_check CHECK (credited BETWEEN 0 AND amount AND (credited = 0 OR credit_id IS NOT NULL)),
    DROP COLUMN credit_note_id;
COMMENT ON TABLE payments IS 'Money that came for invoices, and what of it was taken back';
COMMENT ON COLUMN payments.credited IS 'What of a payment was more than was due and became the credit; of a reversal, what of that had not paid for other invoices; of a return, all of it';

DROP TABLE credit_note_lines;
DROP TABLE credit_notes;
DROP FUNCTION check_credit_note_line;
DROP FUNCTION refuse_credit_note_change;
