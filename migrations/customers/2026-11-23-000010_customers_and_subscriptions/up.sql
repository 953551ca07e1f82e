-- Customers, what they hold, and what is billed of it.
--
-- Every primary key here starts with customer_key, and every unique constraint and foreign key contains it:
-- one customer's rows can live on one machine of many. References to the catalogue are therefore not foreign
-- keys; they cannot dangle, because catalogue rows are never deleted.

CREATE TABLE customers (
    customer_key uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    customer_id text NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY,
    name text,
    email text,
    default_currency_code text NOT NULL,
    billing_address jsonb,
    shipping_address jsonb,
    tax_rate numeric,
    timezone text NOT NULL,
    payment_provider text CHECK (payment_provider IN ('stripe', 'braintree')),
    payment_provider_id text,
    has_payment_method boolean NOT NULL,
    properties json NOT NULL,
    test_clock_id uuid,
    created_at timestamptz NOT NULL,
    last_instant timestamptz NOT NULL,
    deleted_at timestamptz,
    catching_up boolean NOT NULL DEFAULT false
);
CREATE INDEX customers_organization_id_idx ON customers (organization_id, position);
CREATE INDEX customers_test_clock_id_idx ON customers (organization_id, test_clock_id, customer_key)
    WHERE test_clock_id IS NOT NULL;
-- Few, and mostly none.
CREATE INDEX customers_catching_up_idx ON customers (organization_id, customer_key) WHERE catching_up;
COMMENT ON TABLE customers IS 'Who holds subscriptions and receives invoices';
COMMENT ON COLUMN customers.customer_key IS 'UUIDv5 of the organization''s id and customer_id: derived, never looked up';
COMMENT ON COLUMN customers.customer_id IS 'The caller''s own id';
COMMENT ON COLUMN customers.position IS 'Order of creation; created_at is in the customer''s own time and cannot say it';
COMMENT ON COLUMN customers.tax_rate IS 'Sales tax in percent, in place of the organization''s';
COMMENT ON COLUMN customers.properties IS 'The caller''s own, kept as text: every number keeps its digits';
COMMENT ON COLUMN customers.test_clock_id IS 'The clock the customer lives by; null: real time';
COMMENT ON COLUMN customers.last_instant IS 'The customer''s now is never before this instant';
COMMENT ON COLUMN customers.deleted_at IS 'From when on it is found by nobody; id and e-mail address stay taken';
COMMENT ON COLUMN customers.catching_up IS 'Whether something that fell due in the past is still to be billed: until then nothing else changes the customer';

CREATE TABLE billing_due (
    customer_key uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    due_at timestamptz NOT NULL,
    claimed_until timestamptz,
    failures bigint NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failure text,
    failed_at timestamptz,
    is_parked boolean NOT NULL DEFAULT false
);
CREATE INDEX billing_due_due_at_idx ON billing_due (due_at);
COMMENT ON TABLE billing_due IS 'Queue of the billing run: customers in real time that will have something to bill; spans customers';
COMMENT ON COLUMN billing_due.due_at IS 'The earliest instant at which anything is due';
COMMENT ON COLUMN billing_due.claimed_until IS 'Until then a worker has the row, or it waits after a failure; null: nobody';
COMMENT ON COLUMN billing_due.failures IS 'How often in a row its billing has failed';
COMMENT ON COLUMN billing_due.failure IS 'Why it failed the last time';
COMMENT ON COLUMN billing_due.failed_at IS 'When it failed the last time';
COMMENT ON COLUMN billing_due.is_parked IS 'Whether it is left alone because it failed too often';

CREATE TABLE subscriptions (
    customer_key uuid NOT NULL CONSTRAINT subscriptions_customer_key_fkey REFERENCES customers,
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    plan_id uuid NOT NULL,
    plan_version_id uuid NOT NULL,
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    full_start_at timestamptz NOT NULL,
    full_end_at timestamptz NOT NULL,
    anchor_at timestamptz NOT NULL,
    auto_renew boolean NOT NULL,
    is_renewed boolean NOT NULL,
    is_new boolean NOT NULL,
    quantity bigint NOT NULL CHECK (quantity >= 1),
    filters text NOT NULL,
    metadata json NOT NULL,
    prepaid_units jsonb NOT NULL,
    carried_usage jsonb NOT NULL,
    replaced_by uuid,
    flat_fee_behavior text CHECK (flat_fee_behavior IN ('refund', 'charge_prorated', 'charge_full')),
    usage_behavior text CHECK (usage_behavior IN ('bill_full', 'bill_none')),
    settled_charges numeric NOT NULL,
    settled_adjustments numeric NOT NULL,
    settled_tax_exact numeric NOT NULL,
    settled_tax numeric NOT NULL,
    created_at timestamptz NOT NULL,
    parent_id uuid,
    calendar jsonb NOT NULL,
    chain_began_at timestamptz NOT NULL,
    uncancelled_end_at timestamptz,
    settled_taxed jsonb NOT NULL,
    settled_forgiven jsonb NOT NULL,
    PRIMARY KEY (customer_key, id),
    CONSTRAINT subscriptions_parent_id_fkey FOREIGN KEY (customer_key, parent_id) REFERENCES subscriptions,
    CONSTRAINT subscriptions_period_check CHECK (end_at >= start_at),
    CONSTRAINT subscriptions_full_period_check CHECK (full_end_at >= full_start_at),
    -- An empty range overlaps nothing. Filters are compared by digest, because their text may be longer than an
    -- index entry. That one set of filters may not be part of the other is for the domain to say, under the
    -- customer's lock. An add-on may be attached to several subscriptions, and more than once to one of them.
    CONSTRAINT subscriptions_overlap_excl EXCLUDE USING gist (
        customer_key WITH =,
        plan_id WITH =,
        md5(filters) WITH =,
        tstzrange(start_at, end_at) WITH &&
    ) WHERE (parent_id IS NULL)
);
CREATE INDEX subscriptions_id_idx ON subscriptions (organization_id, id);
CREATE INDEX subscriptions_plan_version_id_idx ON subscriptions (organization_id, plan_version_id, end_at);
CREATE INDEX subscriptions_end_at_idx ON subscriptions (customer_key, end_at);
CREATE INDEX subscriptions_parent_id_idx ON subscriptions (customer_key, parent_id);
CREATE INDEX subscriptions_awaiting_renewal_idx ON subscriptions (customer_key) WHERE auto_renew AND NOT is_renewed;
COMMENT ON TABLE subscriptions IS 'A customer''s hold on a plan version for one period; a renewal is a new row';
COMMENT ON COLUMN subscriptions.start_at IS 'The first instant inside the period';
COMMENT ON COLUMN subscriptions.end_at IS 'The first instant after the period';
COMMENT ON COLUMN subscriptions.carried_usage IS 'The reset intervals that run on from a replaced subscription, by metric: since when usage counts, where they end, their whole';
COMMENT ON COLUMN subscriptions.replaced_by IS 'The subscription that took its place by a switch; its own id is no longer valid';
COMMENT ON COLUMN subscriptions.flat_fee_behavior IS 'What the fees come to after a cancellation; null: what each fee says';
COMMENT ON COLUMN subscriptions.usage_behavior IS 'What becomes of usage after a cancellation; null: it was not cancelled';
COMMENT ON COLUMN subscriptions.full_start_at IS 'Start of the uncut interval that the period is part of: what a full price is for';
COMMENT ON COLUMN subscriptions.full_end_at IS 'The first instant after the uncut interval';
COMMENT ON COLUMN subscriptions.anchor_at IS 'Where intervals that do not follow the calendar are counted from: the period''s start, before any switch within it';
COMMENT ON COLUMN subscriptions.is_renewed IS 'Whether a renewal has taken its place';
COMMENT ON COLUMN subscriptions.is_new IS 'False when it came from a renewal';
COMMENT ON COLUMN subscriptions.quantity IS 'Multiplies recurring charges';
COMMENT ON COLUMN subscriptions.filters IS 'Canonical JSON object of property names and values; only events with all of them count';
COMMENT ON COLUMN subscriptions.metadata IS 'The caller''s own, kept as text: every number keeps its digits';
COMMENT ON COLUMN subscriptions.prepaid_units IS 'Metric id to units, where they differ from the version''s default';
COMMENT ON COLUMN subscriptions.settled_charges IS 'Charge lines so far, before adjustments and tax, in major units';
COMMENT ON COLUMN subscriptions.settled_adjustments IS 'Price adjustments so far, in major units';
COMMENT ON COLUMN subscriptions.settled_tax_exact IS 'Tax so far before rounding, in major units';
COMMENT ON COLUMN subscriptions.settled_tax IS 'Tax so far as put on lines, in major units';
COMMENT ON COLUMN subscriptions.parent_id IS 'The subscription that an add-on is attached to; null: it is no add-on';
COMMENT ON COLUMN subscriptions.calendar IS 'What month and year intervals that divide the period are counted by: a boundary (from), the day of the month that is meant, the months of a period';
COMMENT ON COLUMN subscriptions.chain_began_at IS 'When the call was made that began its chain of renewals and switches: no invoice is dated before';
COMMENT ON COLUMN subscriptions.uncancelled_end_at IS 'The end that it had before it was cancelled';
COMMENT ON COLUMN subscriptions.settled_taxed IS 'What was billed after price adjustments and may come back, by the tax that it was billed with';
COMMENT ON COLUMN subscriptions.settled_forgiven IS 'What voided invoices gave of charges, price adjustments and tax: it does not come back';

CREATE TABLE billing_records (
    customer_key uuid NOT NULL,
    id uuid NOT NULL,
    organization_id uuid NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY,
    revision bigint NOT NULL DEFAULT 1,
    subscription_id uuid NOT NULL,
    plan_version_id uuid NOT NULL,
    recurring_charge_id uuid,
    component_id uuid,
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    full_start_at timestamptz NOT NULL,
    full_end_at timestamptz NOT NULL,
    invoicing_instants timestamptz[] NOT NULL,
    next_invoicing_at timestamptz GENERATED ALWAYS AS (invoicing_instants[1]) STORED,
    billed_quantity numeric NOT NULL,
    billed_exact numeric NOT NULL,
    billed_given numeric NOT NULL,
    prepaid jsonb,
    late_until timestamptz,
    tax_rate numeric,
    billed_forgiven numeric NOT NULL CHECK (billed_forgiven >= 0),
    billed_taxed jsonb NOT NULL,
    charged_before_switch numeric NOT NULL,
    usage_billing text NOT NULL CHECK (usage_billing IN ('here', 'handed_on', 'dropped')),
    PRIMARY KEY (customer_key, id),
    CONSTRAINT billing_records_subscription_id_fkey
        FOREIGN KEY (customer_key, subscription_id) REFERENCES subscriptions,
    CONSTRAINT billing_records_period_check CHECK (end_at >= start_at),
    CONSTRAINT billing_records_full_period_check CHECK (full_end_at >= full_start_at),
    CONSTRAINT billing_records_charge_check CHECK (num_nonnulls(recurring_charge_id, component_id) = 1)
);
CREATE INDEX billing_records_subscription_id_idx ON billing_records (customer_key, subscription_id);
CREATE INDEX billing_records_open_idx ON billing_records (customer_key, next_invoicing_at)
    WHERE next_invoicing_at IS NOT NULL;
CREATE INDEX billing_records_late_idx ON billing_records (customer_key, late_until) WHERE late_until IS NOT NULL;
COMMENT ON TABLE billing_records IS 'One charge of a subscription over one reset interval, and how much of it is billed';
COMMENT ON COLUMN billing_records.position IS 'Order of making';
COMMENT ON COLUMN billing_records.revision IS 'Goes up by one with every update, which must name the revision it read';
COMMENT ON COLUMN billing_records.start_at IS 'The first instant of the time it is for';
COMMENT ON COLUMN billing_records.end_at IS 'The first instant after that time';
COMMENT ON COLUMN billing_records.invoicing_instants IS 'When it is put on an invoice, ascending, only instants to come';
COMMENT ON COLUMN billing_records.next_invoicing_at IS 'The first of invoicing_instants; null: fully billed';
COMMENT ON COLUMN billing_records.billed_quantity IS 'Metric units billed so far; 0 for fees';
COMMENT ON COLUMN billing_records.billed_exact IS 'The unrounded price of what was billed so far, in major units';
COMMENT ON COLUMN billing_records.billed_given IS 'What invoice lines gave of that price, in whole minor units';
COMMENT ON COLUMN billing_records.prepaid IS 'Prepaid units by segments of the time, and what was billed of them';
COMMENT ON COLUMN billing_records.late_until IS 'Until when events of its time may still arrive after all of it was billed; null: none are looked for';
COMMENT ON COLUMN billing_records.tax_rate IS 'The sales tax in percent of what was billed of it last, 0 when there was none; null: nothing was billed yet';
COMMENT ON COLUMN billing_records.billed_forgiven IS 'How much of billed_given was on invoices that were voided: it does not come back';
COMMENT ON COLUMN billing_records.billed_taxed IS 'How much of billed_given may come back, by the tax that it was billed with, in order of billing';
COMMENT ON COLUMN billing_records.charged_before_switch IS 'What full fees of its interval came to before a switch of plans';
COMMENT ON COLUMN billing_records.usage_billing IS 'Whether its usage is billed here, was handed on by a switch, or was dropped by a cancellation';

-- The last wall against billing something twice: an update that read another revision than the present one fails
-- as a serialization failure, and the store runs the whole work again.
CREATE FUNCTION check_billing_record_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.revision <> OLD.revision + 1 THEN
        RAISE EXCEPTION 'billing record % was changed meanwhile', OLD.id USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION check_billing_record_revision IS 'Refuses an update of a billing record that did not read its present revision';

CREATE TRIGGER billing_records_revision BEFORE UPDATE ON billing_records
    FOR EACH ROW EXECUTE FUNCTION check_billing_record_revision();

-- A bound on billing that goes on and on holds across transactions, so what was invoiced by schedule is counted.

CREATE TABLE invoicing_counts (
    customer_key uuid NOT NULL,
    subscription_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    invoiced_on date NOT NULL,
    invoices bigint NOT NULL CHECK (invoices > 0),
    PRIMARY KEY (customer_key, subscription_id),
    CONSTRAINT invoicing_counts_subscription_id_fkey
        FOREIGN KEY (customer_key, subscription_id) REFERENCES subscriptions
);
COMMENT ON TABLE invoicing_counts IS 'How often a subscription was invoiced by schedule on the latest day that it was';
COMMENT ON COLUMN invoicing_counts.invoiced_on IS 'That UTC day, in the customer''s own time';
COMMENT ON COLUMN invoicing_counts.invoices IS 'How often on that day';

-- A version on what each customer holds, so that a process can tell whether what it remembers of it still is so. Triggers set
-- it: whoever changes subscriptions, by whatever way, is seen by every process from the commit on.

CREATE TABLE subscription_versions (
    customer_key uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    version uuid NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE subscription_versions IS 'Another version with every change of a customer''s rows in subscriptions; none: they have not changed since there are versions';
COMMENT ON COLUMN subscription_versions.version IS 'Random, and never the same again: also a database that was restored cannot be taken for a later one';

CREATE FUNCTION renew_subscription_versions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO subscription_versions (customer_key, organization_id, version)
    SELECT DISTINCT ON (customer_key) customer_key, organization_id, gen_random_uuid()
    FROM changed
    ORDER BY customer_key
    ON CONFLICT (customer_key) DO UPDATE SET version = excluded.version;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION renew_subscription_versions IS 'Gives what the customer of each changed row holds another version';

CREATE TRIGGER subscriptions_version_inserted AFTER INSERT ON subscriptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION renew_subscription_versions();
CREATE TRIGGER subscriptions_version_updated AFTER UPDATE ON subscriptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION renew_subscription_versions();
CREATE TRIGGER subscriptions_version_deleted AFTER DELETE ON subscriptions
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION renew_subscription_versions();

-- When tables are vacuumed and analyzed. By the usual settings after a fifth and a tenth of their rows have changed: a table of
-- ten million rows is then planned by what it was a million rows ago, and one of a few hundred rows that change a thousand times
-- a second has long grown to many times its size.
DO $$
DECLARE
    name text;
BEGIN
    -- Many rows, ever more of them.
    FOREACH name IN ARRAY ARRAY['customers', 'subscriptions', 'billing_records', 'invoicing_counts']
    LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
            autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 1000)', name);
    END LOOP;
    -- A row for each customer, written again and again.
    FOREACH name IN ARRAY ARRAY['billing_due', 'subscription_versions']
    LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
            autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0)', name);
    END LOOP;
END
$$;
