-- Issued invoices: they never change, and their amount is the sum of their lines.

CREATE TABLE invoices (
    customer_key uuid NOT NULL CONSTRAINT invoices_customer_key_fkey REFERENCES customers,
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    number text NOT NULL,
    billed_to jsonb NOT NULL,
    seller jsonb NOT NULL,
    currency_code text NOT NULL,
    currency_name text NOT NULL,
    currency_symbol text NOT NULL,
    currency_decimals smallint NOT NULL,
    issued_at timestamptz NOT NULL,
    due_at timestamptz,
    payment_status text NOT NULL CHECK (payment_status IN ('voided', 'paid', 'unpaid')),
    line_count bigint NOT NULL CHECK (line_count >= 0),
    amount numeric NOT NULL,
    PRIMARY KEY (customer_key, id)
);
CREATE INDEX invoices_id_idx ON invoices (organization_id, id);
CREATE INDEX invoices_issued_at_idx ON invoices (organization_id, issued_at DESC, id DESC);
CREATE INDEX invoices_customer_issued_at_idx ON invoices (customer_key, issued_at DESC, id DESC);
COMMENT ON TABLE invoices IS 'Issued invoices; nothing on them ever changes but the payment status';
COMMENT ON COLUMN invoices.number IS 'YYMMDD-NNNNNN: the UTC day of issue and the organization''s gap-free sequence';
COMMENT ON COLUMN invoices.billed_to IS 'The customer as on the day of issue';
COMMENT ON COLUMN invoices.seller IS 'The organization as on the day of issue';
COMMENT ON COLUMN invoices.issued_at IS 'When it was issued, in the customer''s own time';
COMMENT ON COLUMN invoices.line_count IS 'How many lines it has: no line can be added later';
COMMENT ON COLUMN invoices.amount IS 'The sum of the lines'' amounts, in major units of the currency';

CREATE TABLE invoice_lines (
    customer_key uuid NOT NULL,
    invoice_id uuid NOT NULL,
    position bigint NOT NULL CHECK (position >= 0),
    organization_id uuid NOT NULL,
    name text NOT NULL,
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    quantity numeric,
    billing_type text NOT NULL CHECK (billing_type IN ('in_arrears', 'intermediate', 'in_advance', 'one_time')),
    subscription_id uuid,
    record_id uuid,
    plan jsonb,
    filters text NOT NULL,
    base numeric NOT NULL,
    adjustments jsonb NOT NULL,
    amount numeric NOT NULL,
    trace jsonb NOT NULL,
    PRIMARY KEY (customer_key, invoice_id, position),
    CONSTRAINT invoice_lines_invoice_id_fkey FOREIGN KEY (customer_key, invoice_id) REFERENCES invoices,
    CONSTRAINT invoice_lines_subscription_id_fkey
        FOREIGN KEY (customer_key, subscription_id) REFERENCES subscriptions,
    CONSTRAINT invoice_lines_record_id_fkey FOREIGN KEY (customer_key, record_id) REFERENCES billing_records,
    CONSTRAINT invoice_lines_period_check CHECK (end_at >= start_at)
);
CREATE INDEX invoice_lines_subscription_id_idx ON invoice_lines (customer_key, subscription_id);
CREATE INDEX invoice_lines_record_id_idx ON invoice_lines (customer_key, record_id);
COMMENT ON TABLE invoice_lines IS 'What an invoice charges for, line by line';
COMMENT ON COLUMN invoice_lines.position IS 'Place on the invoice, from 0';
COMMENT ON COLUMN invoice_lines.start_at IS 'The first instant of the time the line is for';
COMMENT ON COLUMN invoice_lines.end_at IS 'The first instant after that time';
COMMENT ON COLUMN invoice_lines.quantity IS 'Metric units, or copies of a fee when more than one';
COMMENT ON COLUMN invoice_lines.plan IS 'The plan version as it was named on the day of issue';
COMMENT ON COLUMN invoice_lines.base IS 'Price before adjustments and tax, in whole minor units';
COMMENT ON COLUMN invoice_lines.adjustments IS 'What was added to the base: a list of {kind, amount, rate, rounding}';
COMMENT ON COLUMN invoice_lines.amount IS 'Base and all adjustments';
COMMENT ON COLUMN invoice_lines.trace IS 'How the line came about: enough to compute it again by hand';

CREATE TABLE invoice_numbers (
    organization_id uuid NOT NULL,
    number text NOT NULL,
    customer_key uuid NOT NULL,
    invoice_id uuid NOT NULL,
    PRIMARY KEY (organization_id, number)
);
COMMENT ON TABLE invoice_numbers IS 'Makes an invoice number unique in its organization: a small table that spans customers';

CREATE TABLE invoice_counters (
    organization_id uuid PRIMARY KEY CONSTRAINT invoice_counters_organization_id_fkey REFERENCES organizations,
    last_sequence bigint NOT NULL CHECK (last_sequence >= 0)
);
COMMENT ON TABLE invoice_counters IS 'The last number of each organization''s gap-free invoice sequence';

CREATE FUNCTION check_invoice_amount() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    lines record;
BEGIN
    SELECT count(*) AS count, coalesce(sum(line.amount), 0) AS amount INTO lines
    FROM invoice_lines line
    WHERE line.customer_key = NEW.customer_key AND line.invoice_id = NEW.id;
    IF lines.count <> NEW.line_count OR lines.amount <> NEW.amount THEN
        RAISE EXCEPTION 'invoice % says % in % lines, its lines add up to % in %',
            NEW.id, NEW.amount, NEW.line_count, lines.amount, lines.count
            USING ERRCODE = 'check_violation', CONSTRAINT = 'invoices_amount';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION check_invoice_amount IS 'At commit: an invoice has the lines it says, and they add up to its amount';

CREATE CONSTRAINT TRIGGER invoices_amount AFTER INSERT ON invoices
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_invoice_amount();

CREATE FUNCTION check_invoice_line_position() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM invoices invoice
    WHERE invoice.customer_key = NEW.customer_key AND invoice.id = NEW.invoice_id AND invoice.line_count > NEW.position;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'invoice % has no line %', NEW.invoice_id, NEW.position
            USING ERRCODE = 'check_violation', CONSTRAINT = 'invoice_lines_position';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION check_invoice_line_position IS 'A line has a place among those its invoice was issued with, so none comes later';

CREATE TRIGGER invoice_lines_position BEFORE INSERT ON invoice_lines
    FOR EACH ROW EXECUTE FUNCTION check_invoice_line_position();

CREATE FUNCTION refuse_invoice_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'invoices' THEN
        IF to_jsonb(NEW) - 'payment_status' = to_jsonb(OLD) - 'payment_status' THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'issued invoices do not change' USING ERRCODE = 'restrict_violation', CONSTRAINT = 'invoices_immutable';
END
$$;
COMMENT ON FUNCTION refuse_invoice_change IS 'Refuses every change of an issued invoice but that of its payment status';

CREATE TRIGGER invoices_immutable BEFORE UPDATE OR DELETE ON invoices
    FOR EACH ROW EXECUTE FUNCTION refuse_invoice_change();
CREATE TRIGGER invoice_lines_immutable BEFORE UPDATE OR DELETE ON invoice_lines
    FOR EACH ROW EXECUTE FUNCTION refuse_invoice_change();
