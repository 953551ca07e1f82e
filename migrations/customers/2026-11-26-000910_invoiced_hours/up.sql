-- What an organization has invoiced, hour by hour, so that whoever asks for the sum of a month does not go through its invoices. A trigger
-- keeps it in the transaction that issues or voids: also that of the program before this one, which may still be at work.
CREATE TABLE invoiced_hours (
    organization_id uuid NOT NULL,
    hour timestamptz NOT NULL,
    currency_code text NOT NULL,
    writer integer NOT NULL,
    amount numeric NOT NULL,
    PRIMARY KEY (organization_id, hour, currency_code, writer)
);
COMMENT ON TABLE invoiced_hours IS 'Sums of what was invoiced within an hour, without what was voided and without customers under a test clock; there are no more rows than invoices';
COMMENT ON COLUMN invoiced_hours.hour IS 'The first instant of the hour in which the invoices were issued';
COMMENT ON COLUMN invoiced_hours.writer IS 'The process of Postgres that has added to it: no two transactions write one row at a time, so none waits for another';
COMMENT ON COLUMN invoiced_hours.amount IS 'In major units; what was voided later is taken off by whoever voids it, so one row may be below 0';
-- Few rows that are written again and again.
ALTER TABLE invoiced_hours SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);

CREATE FUNCTION sum_invoiced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO invoiced_hours AS known (organization_id, hour, currency_code, writer, amount)
    SELECT NEW.organization_id, date_trunc('hour', NEW.issued_at, 'UTC'), NEW.currency_code, pg_backend_pid(),
        CASE TG_OP WHEN 'INSERT' THEN NEW.amount ELSE -NEW.amount END
    FROM customers customer
    WHERE customer.customer_key = NEW.customer_key AND customer.test_clock_id IS NULL
    ON CONFLICT (organization_id, hour, currency_code, writer) DO UPDATE SET amount = known.amount + excluded.amount;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION sum_invoiced IS 'Adds an invoice to what was invoiced in its hour, and takes one off again that is voided';

CREATE TRIGGER invoices_summed AFTER INSERT ON invoices
    FOR EACH ROW WHEN (NEW.payment_status <> 'voided') EXECUTE FUNCTION sum_invoiced();
CREATE TRIGGER invoices_taken_off AFTER UPDATE OF payment_status ON invoices
    FOR EACH ROW WHEN (OLD.payment_status <> 'voided' AND NEW.payment_status = 'voided') EXECUTE FUNCTION sum_invoiced();

-- Nothing can be issued meanwhile, since the triggers hold the table: about a second for a million invoices.
INSERT INTO invoiced_hours (organization_id, hour, currency_code, writer, amount)
SELECT invoice.organization_id, date_trunc('hour', invoice.issued_at, 'UTC'), invoice.currency_code, 0, sum(invoice.amount)
FROM invoices invoice
JOIN customers customer USING (customer_key)
WHERE invoice.payment_status <> 'voided' AND customer.test_clock_id IS NULL
GROUP BY 1, 2, 3;
