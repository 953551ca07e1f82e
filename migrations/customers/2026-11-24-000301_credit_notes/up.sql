-- Credit notes: documents that take back a part of what an issued invoice charged, line by line. What is due of the invoice follows
-- from them as it does from payments: each puts an entry into the ledger of its invoice, and so does its void.

CREATE TABLE credit_notes (
    customer_key uuid NOT NULL,
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    number text NOT NULL,
    invoice_id uuid NOT NULL,
    currency_code text NOT NULL,
    issued_at timestamptz NOT NULL,
    amount numeric NOT NULL CHECK (amount > 0),
    credited numeric NOT NULL CHECK (credited >= 0),
    settlement text NOT NULL CHECK (settlement IN ('balance', 'outside')),
    credit_id uuid,
    reason text NOT NULL,
    reference text,
    voided_at timestamptz,
    PRIMARY KEY (customer_key, id),
    CONSTRAINT credit_notes_invoice_id_fkey FOREIGN KEY (customer_key, invoice_id) REFERENCES invoices,
    CONSTRAINT credit_notes_credit_id_fkey FOREIGN KEY (customer_key, credit_id) REFERENCES credits,
    CONSTRAINT credit_notes_not_due_check CHECK (credited <= amount),
    CONSTRAINT credit_notes_credit_check CHECK ((credit_id IS NOT NULL) = (settlement = 'balance' AND credited > 0))
);
CREATE INDEX credit_notes_id_idx ON credit_notes (organization_id, id);
CREATE INDEX credit_notes_issued_at_idx ON credit_notes (organization_id, issued_at DESC, id DESC);
CREATE INDEX credit_notes_customer_issued_at_idx ON credit_notes (customer_key, issued_at DESC, id DESC);
CREATE INDEX credit_notes_invoice_id_idx ON credit_notes (customer_key, invoice_id);
CREATE INDEX credit_notes_credit_id_idx ON credit_notes (customer_key, credit_id);
COMMENT ON TABLE credit_notes IS 'What was taken back of issued invoices; nothing on them ever changes but whether they are voided';
COMMENT ON COLUMN credit_notes.number IS 'CN-YYMMDD-NNNNNN: the UTC day of issue and the organization''s gap-free sequence of credit notes';
COMMENT ON COLUMN credit_notes.issued_at IS 'When it was issued, in the customer''s own time';
COMMENT ON COLUMN credit_notes.amount IS 'The sum of its lines, with tax, in major units';
COMMENT ON COLUMN credit_notes.credited IS 'What of the amount was not due any more: it became the credit, or was refunded outside';
COMMENT ON COLUMN credit_notes.reference IS 'What names a refund outside';
COMMENT ON COLUMN credit_notes.voided_at IS 'When it was voided, in the customer''s own time';

CREATE TABLE credit_note_lines (
    customer_key uuid NOT NULL,
    credit_note_id uuid NOT NULL,
    position bigint NOT NULL CHECK (position >= 0),
    organization_id uuid NOT NULL,
    invoice_id uuid NOT NULL,
    amount numeric NOT NULL CHECK (amount > 0),
    base numeric NOT NULL,
    tax numeric NOT NULL CHECK (tax >= 0),
    PRIMARY KEY (customer_key, credit_note_id, position),
    CONSTRAINT credit_note_lines_credit_note_id_fkey FOREIGN KEY (customer_key, credit_note_id) REFERENCES credit_notes,
    CONSTRAINT credit_note_lines_position_fkey FOREIGN KEY (customer_key, invoice_id, position) REFERENCES invoice_lines
);
CREATE INDEX credit_note_lines_position_idx ON credit_note_lines (customer_key, invoice_id, position);
COMMENT ON TABLE credit_note_lines IS 'What a credit note takes back of each line of its invoice';
COMMENT ON COLUMN credit_note_lines.position IS 'The line''s place on the invoice, from 0';
COMMENT ON COLUMN credit_note_lines.amount IS 'With adjustments and tax, in major units';
COMMENT ON COLUMN credit_note_lines.base IS 'What of the line''s base';
COMMENT ON COLUMN credit_note_lines.tax IS 'What of the line''s tax';

CREATE FUNCTION check_credit_note_line() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM invoice_lines line
    WHERE line.customer_key = NEW.customer_key AND line.invoice_id = NEW.invoice_id AND line.position = NEW.position
        AND line.amount >= (
            SELECT sum(other.amount) FROM credit_note_lines other
            JOIN credit_notes note ON note.customer_key = other.customer_key AND note.id = other.credit_note_id
            WHERE other.customer_key = NEW.customer_key AND other.invoice_id = NEW.invoice_id AND other.position = NEW.position
                AND note.voided_at IS NULL
        );
    IF NOT FOUND THEN
        RAISE EXCEPTION 'credit notes take more than line % of invoice % charged', NEW.position, NEW.invoice_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'credit_note_lines_left';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION check_credit_note_line IS 'Credit notes that stand never take more of a line than it charged';

CREATE TRIGGER credit_note_lines_left AFTER INSERT ON credit_note_lines
    FOR EACH ROW EXECUTE FUNCTION check_credit_note_line();

CREATE FUNCTION refuse_credit_note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'credit_notes' THEN
        IF to_jsonb(NEW) - 'voided_at' = to_jsonb(OLD) - 'voided_at' AND to_jsonb(OLD) ->> 'voided_at' IS NULL THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'credit notes do not change' USING ERRCODE = 'restrict_violation', CONSTRAINT = 'credit_notes_immutable';
END
$$;
COMMENT ON FUNCTION refuse_credit_note_change IS 'Refuses every change of an issued credit note but that it is voided, once';

CREATE TRIGGER credit_notes_immutable BEFORE UPDATE OR DELETE ON credit_notes
    FOR EACH ROW EXECUTE FUNCTION refuse_credit_note_change();
CREATE TRIGGER credit_note_lines_immutable BEFORE UPDATE OR DELETE ON credit_note_lines
    FOR EACH ROW EXECUTE FUNCTION refuse_credit_note_change();

ALTER TABLE payments
    ADD COLUMN credit_note_id uuid,
    DROP CONSTRAINT payments_kind_check,
    DROP CONSTRAINT payments_credited_check,
    ADD CONSTRAINT payments_kind_check
        CHECK (kind IN ('payment', 'reversal', 'returned', 'credit_note', 'credit_note_voided')) NOT VALID,
    ADD CONSTRAINT payments_credited_check CHECK (credited BETWEEN 0 AND amount
        AND (credited = 0 OR credit_id IS NOT NULL OR credit_note_id IS NOT NULL)) NOT VALID,
    ADD CONSTRAINT payments_credit_note_check
        CHECK ((kind IN ('credit_note', 'credit_note_voided')) = (credit_note_id IS NOT NULL)) NOT VALID,
    ADD CONSTRAINT payments_credit_note_id_fkey FOREIGN KEY (customer_key, credit_note_id) REFERENCES credit_notes NOT VALID,
    ADD CONSTRAINT payments_credit_note_id_key UNIQUE (customer_key, credit_note_id, kind);
ALTER TABLE payments
    VALIDATE CONSTRAINT payments_kind_check,
    VALIDATE CONSTRAINT payments_credited_check,
    VALIDATE CONSTRAINT payments_credit_note_check,
    VALIDATE CONSTRAINT payments_credit_note_id_fkey;
COMMENT ON TABLE payments IS 'What settles invoices: money that came for them, what of it was taken back, and credit notes';
COMMENT ON COLUMN payments.credited IS 'What of a payment was more than was due and became the credit; of a reversal, what of that had not paid for other invoices; of a return, all of it; of a credit note, what was not due any more';
COMMENT ON COLUMN payments.credit_note_id IS 'The credit note that the entry is about';

CREATE OR REPLACE FUNCTION settle_invoice() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    settled numeric := CASE WHEN NEW.kind IN ('payment', 'credit_note') THEN NEW.amount - NEW.credited
        WHEN NEW.kind IN ('reversal', 'credit_note_voided') THEN NEW.credited - NEW.amount ELSE NEW.credited END;
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

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['credit_notes', 'credit_note_lines']
    LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
            autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000)', name);
    END LOOP;
END
$$;
