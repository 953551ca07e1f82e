-- What is told of everything that became true of a customer, written in the transaction of the fact; and which unpaid invoices that
-- has been told of.

CREATE TABLE messages (
    customer_key uuid NOT NULL,
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    message_type text NOT NULL,
    at timestamptz NOT NULL,
    is_live boolean NOT NULL,
    invoice_id uuid,
    data text,
    is_placed boolean NOT NULL DEFAULT false,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (customer_key, id),
    CONSTRAINT messages_subject_check CHECK ((invoice_id IS NULL) <> (data IS NULL))
) WITH (fillfactor = 80);
CREATE INDEX messages_unplaced_idx ON messages (written_at, id) WHERE NOT is_placed;
COMMENT ON TABLE messages IS 'What became true of customers, as it was told';
COMMENT ON COLUMN messages.at IS 'When it became true, in the customer''s own time';
COMMENT ON COLUMN messages.is_live IS 'False for customers who live by a test clock';
COMMENT ON COLUMN messages.invoice_id IS 'The invoice that it is about, which says itself what there is to say';
COMMENT ON COLUMN messages.data IS 'What it says of anything else: a JSON object, byte for byte as it is sent';
COMMENT ON COLUMN messages.is_placed IS 'Whether it stands in the feed';
COMMENT ON COLUMN messages.written_at IS 'Real time: a customer''s messages are written one transaction after the other';
ALTER TABLE messages SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000);

ALTER TABLE invoices ADD COLUMN past_due_at timestamptz;
CREATE INDEX invoices_falling_due_idx ON invoices (customer_key)
    WHERE payment_status = 'unpaid' AND past_due_at IS NULL AND due_at IS NOT NULL;
COMMENT ON COLUMN invoices.past_due_at IS 'When it fell due without having been paid, once the billing run has come by';

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
