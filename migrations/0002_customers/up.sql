-- What belongs to one customer, and the small tables beside it that span customers.
--
-- Every primary key here starts with customer_key, and every unique constraint and foreign key contains it:
-- one customer's rows can live on one machine of many. References to the catalogue are therefore not foreign
-- keys; they cannot dangle, because catalogue rows are never deleted.

CREATE EXTENSION IF NOT EXISTS btree_gist;

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
    last_instant timestamptz NOT NULL
);
CREATE INDEX customers_organization_id_idx ON customers (organization_id, position);
CREATE INDEX customers_test_clock_id_idx ON customers (organization_id, test_clock_id, customer_key)
    WHERE test_clock_id IS NOT NULL;
COMMENT ON TABLE customers IS 'Who holds subscriptions and receives invoices';
COMMENT ON COLUMN customers.customer_key IS 'UUIDv5 of the organization''s id and customer_id: derived, never looked up';
COMMENT ON COLUMN customers.customer_id IS 'The caller''s own id';
COMMENT ON COLUMN customers.position IS 'Order of creation; created_at is in the customer''s own time and cannot say it';
COMMENT ON COLUMN customers.tax_rate IS 'Sales tax in percent, in place of the organization''s';
COMMENT ON COLUMN customers.properties IS 'The caller''s own, kept as text: every number keeps its digits';
COMMENT ON COLUMN customers.test_clock_id IS 'The clock the customer lives by; null: real time';
COMMENT ON COLUMN customers.last_instant IS 'The customer''s now is never before this instant';

CREATE TABLE customer_emails (
    organization_id uuid NOT NULL,
    email text NOT NULL,
    customer_key uuid NOT NULL,
    PRIMARY KEY (organization_id, email)
);
COMMENT ON TABLE customer_emails IS 'Makes an e-mail address unique in its organization: a small table that spans customers';

CREATE TABLE billing_due (
    customer_key uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    due_at timestamptz NOT NULL,
    claimed_until timestamptz
);
CREATE INDEX billing_due_due_at_idx ON billing_due (due_at);
COMMENT ON TABLE billing_due IS 'Queue of the billing run: customers in real time that will have something to bill; spans customers';
COMMENT ON COLUMN billing_due.due_at IS 'The earliest instant at which anything is due';
COMMENT ON COLUMN billing_due.claimed_until IS 'Until then a worker has the row; null: nobody';

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
    renewal bigint NOT NULL CHECK (renewal >= 0),
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
    PRIMARY KEY (customer_key, id),
    CONSTRAINT subscriptions_period_check CHECK (end_at >= start_at),
    CONSTRAINT subscriptions_full_period_check CHECK (full_end_at >= full_start_at),
    -- An empty range overlaps nothing. Filters are compared by digest, because their text may be longer than an
    -- index entry. That one set of filters may not be part of the other is for the domain to say, under the
    -- customer's lock.
    CONSTRAINT subscriptions_overlap_excl EXCLUDE USING gist (
        customer_key WITH =,
        plan_id WITH =,
        md5(filters) WITH =,
        tstzrange(start_at, end_at) WITH &&
    )
);
CREATE INDEX subscriptions_id_idx ON subscriptions (organization_id, id);
CREATE INDEX subscriptions_plan_version_id_idx ON subscriptions (organization_id, plan_version_id, end_at);
CREATE INDEX subscriptions_end_at_idx ON subscriptions (customer_key, end_at);
CREATE INDEX subscriptions_awaiting_renewal_idx ON subscriptions (customer_key) WHERE auto_renew AND NOT is_renewed;
COMMENT ON TABLE subscriptions IS 'A customer''s hold on a plan version for one period; a renewal is a new row';
COMMENT ON COLUMN subscriptions.start_at IS 'The first instant inside the period';
COMMENT ON COLUMN subscriptions.end_at IS 'The first instant after the period';
COMMENT ON COLUMN subscriptions.carried_usage IS 'Since when usage counts that came along from a replaced subscription, by metric';
COMMENT ON COLUMN subscriptions.replaced_by IS 'The subscription that took its place by a switch; its own id is no longer valid';
COMMENT ON COLUMN subscriptions.flat_fee_behavior IS 'What the fees come to after a cancellation; null: what each fee says';
COMMENT ON COLUMN subscriptions.usage_behavior IS 'What becomes of usage after a cancellation; null: it was not cancelled';
COMMENT ON COLUMN subscriptions.full_start_at IS 'Start of the uncut interval that the period is part of: what a full price is for';
COMMENT ON COLUMN subscriptions.full_end_at IS 'The first instant after the uncut interval';
COMMENT ON COLUMN subscriptions.anchor_at IS 'Start of the first subscription of the chain of renewals';
COMMENT ON COLUMN subscriptions.renewal IS 'How many renewals lie between the anchor and this period';
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
