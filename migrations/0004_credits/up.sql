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
