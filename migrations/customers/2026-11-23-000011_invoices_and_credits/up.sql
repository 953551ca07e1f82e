-- Issued invoices, which never change and whose amount is the sum of their lines, and the credits that pay them down.

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

-- Credits and their ledgers: entries are appended and never changed, and the balance is what they add up to.

CREATE TABLE credits (
    customer_key uuid NOT NULL CONSTRAINT credits_customer_key_fkey REFERENCES customers,
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    currency_code text NOT NULL,
    amount numeric NOT NULL CHECK (amount > 0),
    amount_paid numeric NOT NULL CHECK (amount_paid >= 0),
    amount_paid_currency_code text,
    description text,
    effective_at timestamptz NOT NULL,
    expires_at timestamptz,
    created_at timestamptz NOT NULL,
    drawn numeric NOT NULL DEFAULT 0,
    restored numeric NOT NULL DEFAULT 0 CHECK (restored >= 0),
    voided numeric NOT NULL DEFAULT 0 CHECK (voided >= 0),
    expired numeric NOT NULL DEFAULT 0 CHECK (expired >= 0),
    remaining numeric GENERATED ALWAYS AS (amount - (drawn - restored) - voided - expired) STORED,
    PRIMARY KEY (customer_key, id),
    CONSTRAINT credits_expires_at_check CHECK (expires_at > effective_at),
    CONSTRAINT credits_outstanding_check CHECK (drawn >= restored),
    CONSTRAINT credits_remaining_check CHECK (remaining >= 0)
);
CREATE INDEX credits_id_idx ON credits (organization_id, id);
CREATE INDEX credits_created_at_idx ON credits (customer_key, created_at, id);
CREATE INDEX credits_open_idx ON credits (customer_key, created_at, id) WHERE remaining > 0;
COMMENT ON TABLE credits IS 'Money on a customer''s account that pays invoices down';
COMMENT ON COLUMN credits.currency_code IS 'It pays invoices in this currency and no others';
COMMENT ON COLUMN credits.amount IS 'What it is worth, in major units';
COMMENT ON COLUMN credits.amount_paid IS 'What the customer paid for it, in major units of its own currency; 0 when it was given';
COMMENT ON COLUMN credits.effective_at IS 'From when on it pays invoices';
COMMENT ON COLUMN credits.expires_at IS 'From when on it does not; null: never';
COMMENT ON COLUMN credits.drawn IS 'What paid for invoices: moved by the entries alone, like the next three';
COMMENT ON COLUMN credits.restored IS 'What came back of it from voided invoices';
COMMENT ON COLUMN credits.voided IS 'What was taken away';
COMMENT ON COLUMN credits.expired IS 'What ran out of time';
COMMENT ON COLUMN credits.remaining IS 'amount = remaining + (drawn - restored) + voided + expired, every term at least 0';

CREATE TABLE credit_entries (
    customer_key uuid NOT NULL,
    credit_id uuid NOT NULL,
    position bigint NOT NULL CHECK (position >= 0),
    organization_id uuid NOT NULL,
    id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('grant', 'drawdown', 'restored', 'void', 'expiry')),
    amount numeric NOT NULL CHECK (amount > 0),
    invoice_id uuid,
    at timestamptz NOT NULL,
    PRIMARY KEY (customer_key, credit_id, position),
    CONSTRAINT credit_entries_credit_id_fkey FOREIGN KEY (customer_key, credit_id) REFERENCES credits,
    -- Deferred: the drawdown may be written before the invoice it pays.
    CONSTRAINT credit_entries_invoice_id_fkey FOREIGN KEY (customer_key, invoice_id) REFERENCES invoices
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT credit_entries_grant_check CHECK ((position = 0) = (kind = 'grant')),
    CONSTRAINT credit_entries_invoice_check CHECK ((kind IN ('drawdown', 'restored')) = (invoice_id IS NOT NULL))
);
CREATE INDEX credit_entries_invoice_id_idx ON credit_entries (customer_key, invoice_id);
COMMENT ON TABLE credit_entries IS 'What happened to a credit, in order';
COMMENT ON COLUMN credit_entries.position IS 'Place in the ledger, from 0: the grant';
COMMENT ON COLUMN credit_entries.amount IS 'How much, in major units, always above 0; the kind says which way';
COMMENT ON COLUMN credit_entries.at IS 'When, in the customer''s own time';

CREATE FUNCTION add_credit_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE credits
    SET drawn = drawn + CASE WHEN NEW.kind = 'drawdown' THEN NEW.amount ELSE 0 END,
        restored = restored + CASE WHEN NEW.kind = 'restored' THEN NEW.amount ELSE 0 END,
        voided = voided + CASE WHEN NEW.kind = 'void' THEN NEW.amount ELSE 0 END,
        expired = expired + CASE WHEN NEW.kind = 'expiry' THEN NEW.amount ELSE 0 END
    WHERE customer_key = NEW.customer_key AND id = NEW.credit_id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION add_credit_entry IS 'Moves a credit''s balance by a new entry of its ledger';

CREATE TRIGGER credit_entries_balance AFTER INSERT ON credit_entries
    FOR EACH ROW WHEN (NEW.kind <> 'grant') EXECUTE FUNCTION add_credit_entry();

CREATE FUNCTION refuse_credit_entry_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'ledger entries do not change'
        USING ERRCODE = 'restrict_violation', CONSTRAINT = 'credit_entries_immutable';
END
$$;
COMMENT ON FUNCTION refuse_credit_entry_change IS 'Refuses every change of a ledger entry';

CREATE TRIGGER credit_entries_immutable BEFORE UPDATE OR DELETE ON credit_entries
    FOR EACH ROW EXECUTE FUNCTION refuse_credit_entry_change();

-- When tables are vacuumed and analyzed. By the usual settings after a fifth and a tenth of their rows have changed: a table of
-- ten million rows is then planned by what it was a million rows ago, and one of a few hundred rows that change a thousand times
-- a second has long grown to many times its size.
DO $$
DECLARE
    name text;
BEGIN
    -- Many rows, ever more of them.
    FOREACH name IN ARRAY ARRAY['invoices', 'invoice_lines', 'credits', 'credit_entries']
    LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
            autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000)', name);
    END LOOP;
END
$$;
