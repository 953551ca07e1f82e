-- Payments of invoices: a ledger that is appended to. What is paid of an invoice and its payment status follow from it.

ALTER TABLE invoices
    ADD COLUMN amount_paid numeric NOT NULL DEFAULT 0,
    ADD COLUMN voided_at timestamptz,
    ADD COLUMN amount_past_due numeric;
COMMENT ON TABLE invoices IS 'Issued invoices; nothing on them ever changes but what is paid of them, and whether they are voided';
COMMENT ON COLUMN invoices.amount_paid IS 'What its payments have settled of it, moved by them alone; below 0 where what a reversed one had overpaid is owed again';
COMMENT ON COLUMN invoices.voided_at IS 'When it was voided, in the customer''s own time';

COMMENT ON COLUMN invoices.amount_past_due IS 'What was due of it when it was noted as past due';

CREATE TABLE payments (
    customer_key uuid NOT NULL,
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY,
    invoice_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('payment', 'reversal')),
    reverses uuid,
    amount numeric NOT NULL CHECK (amount > 0),
    credited numeric NOT NULL,
    credit_id uuid,
    at timestamptz NOT NULL,
    method text,
    reference text,
    reason text,
    noted_at timestamptz NOT NULL,
    PRIMARY KEY (customer_key, id),
    CONSTRAINT payments_invoice_id_fkey FOREIGN KEY (customer_key, invoice_id) REFERENCES invoices,
    CONSTRAINT payments_credit_id_fkey FOREIGN KEY (customer_key, credit_id) REFERENCES credits,
    CONSTRAINT payments_reverses_fkey FOREIGN KEY (customer_key, reverses) REFERENCES payments,
    CONSTRAINT payments_reverses_key UNIQUE (customer_key, reverses),
    -- What has no method is of one method.
    CONSTRAINT payments_reference_excl EXCLUDE USING btree (
        customer_key WITH =,
        invoice_id WITH =,
        coalesce(method, '') WITH =,
        reference WITH =
    ) WHERE (reference IS NOT NULL),
    CONSTRAINT payments_reverses_check CHECK ((kind = 'reversal') = (reverses IS NOT NULL)),
    CONSTRAINT payments_credited_check CHECK (credited BETWEEN 0 AND amount AND (credited = 0 OR credit_id IS NOT NULL))
);
CREATE INDEX payments_invoice_id_idx ON payments (customer_key, invoice_id, position);
CREATE INDEX payments_credit_id_idx ON payments (customer_key, credit_id);
COMMENT ON TABLE payments IS 'Money that came for invoices, and what of it was taken back';
COMMENT ON COLUMN payments.position IS 'Order of noting';
COMMENT ON COLUMN payments.reverses IS 'The payment that a reversal takes back';
COMMENT ON COLUMN payments.amount IS 'All that came or is taken back, in major units, always above 0; the kind says which way';
COMMENT ON COLUMN payments.credited IS 'What of a payment was more than was due and became the credit; of a reversal, what of that had not paid for other invoices';
COMMENT ON COLUMN payments.at IS 'When the money came or went, as the caller said';
COMMENT ON COLUMN payments.reference IS 'What tells it from others of its invoice and method: it counts once, also after it was reversed';
COMMENT ON COLUMN payments.noted_at IS 'When it was noted, in the customer''s own time';
ALTER TABLE payments SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000);

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

CREATE FUNCTION settle_invoice() RETURNS trigger LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION settle_invoice IS 'Moves what is paid of an invoice, and its payment status, by a new entry of its ledger';

CREATE TRIGGER payments_settle AFTER INSERT ON payments FOR EACH ROW EXECUTE FUNCTION settle_invoice();

CREATE FUNCTION refuse_payment_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'payments do not change' USING ERRCODE = 'restrict_violation', CONSTRAINT = 'payments_immutable';
END
$$;
COMMENT ON FUNCTION refuse_payment_change IS 'Refuses every change of a noted payment';

CREATE TRIGGER payments_immutable BEFORE UPDATE OR DELETE ON payments
    FOR EACH ROW EXECUTE FUNCTION refuse_payment_change();

-- What was said to be paid before there were payments was paid at some time that nobody wrote down; of voids neither. Nothing was
-- released without, so it is done at once.
INSERT INTO payments (customer_key, id, organization_id, invoice_id, kind, amount, credited, at, noted_at)
SELECT customer_key, gen_random_uuid(), organization_id, id, 'payment', amount, 0, issued_at, issued_at
FROM invoices
WHERE payment_status = 'paid' AND amount <> 0
ORDER BY issued_at, id;
UPDATE invoices SET voided_at = issued_at WHERE payment_status = 'voided';
UPDATE invoices SET amount_past_due = amount WHERE past_due_at IS NOT NULL;
-- What the foreign keys of these rows have to look at is looked at now: a table with events of triggers to come cannot be altered.
SET CONSTRAINTS ALL IMMEDIATE;

ALTER TABLE invoices
    ADD CONSTRAINT invoices_amount_paid_check CHECK (CASE payment_status
        WHEN 'paid' THEN amount_paid = amount
        WHEN 'unpaid' THEN amount_paid < amount
        ELSE amount_paid = 0
    END),
    ADD CONSTRAINT invoices_voided_at_check CHECK ((payment_status = 'voided') = (voided_at IS NOT NULL));
