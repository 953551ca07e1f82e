-- What an organization offers: small tables, read often, changed seldom.
--
-- Every key starts with the organization, so that no reference can reach into another one. No table here
-- refers to a customer's. Rows are never deleted, except API keys.

CREATE TABLE organizations (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    default_currency_code text NOT NULL,
    timezone text NOT NULL,
    tax_rate numeric,
    payment_grace_period_days integer CHECK (payment_grace_period_days >= 0),
    invoice_grace_minutes bigint NOT NULL CHECK (invoice_grace_minutes >= 0),
    subscription_filter_keys text[] NOT NULL,
    access_policy text NOT NULL CHECK (access_policy IN ('all', 'any')),
    event_window_days integer NOT NULL CHECK (event_window_days >= 0),
    address jsonb,
    created_at timestamptz NOT NULL
);
COMMENT ON TABLE organizations IS 'Tenants and their settings';
COMMENT ON COLUMN organizations.timezone IS 'IANA name that new customers inherit; billing itself is in UTC';
COMMENT ON COLUMN organizations.tax_rate IS 'Sales tax in percent (10.5 means 10.5 %)';
COMMENT ON COLUMN organizations.payment_grace_period_days IS 'Days from issue to due date; null or 0: no due date';
COMMENT ON COLUMN organizations.invoice_grace_minutes IS 'How long a scheduled invoice waits for late events, in minutes';
COMMENT ON COLUMN organizations.subscription_filter_keys IS 'Event properties that subscription filters may name';
COMMENT ON COLUMN organizations.event_window_days IS 'How old an event may be when it arrives, in days';

CREATE TABLE api_keys (
    prefix text PRIMARY KEY,
    organization_id uuid NOT NULL CONSTRAINT api_keys_organization_id_fkey REFERENCES organizations,
    name text NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    created_at timestamptz NOT NULL,
    expires_at timestamptz
);
CREATE INDEX api_keys_organization_id_idx ON api_keys (organization_id, created_at);
COMMENT ON TABLE api_keys IS 'Who may speak for an organization; a deleted key is worthless from the commit on';
COMMENT ON COLUMN api_keys.prefix IS 'First 8 characters of the key: finds it before the organization is known';
COMMENT ON COLUMN api_keys.digest IS 'Keyed digest of the whole key; the key itself is kept nowhere';
COMMENT ON COLUMN api_keys.expires_at IS 'From this instant on the key is worthless; null: never';

CREATE TABLE currencies (
    organization_id uuid NOT NULL CONSTRAINT currencies_organization_id_fkey REFERENCES organizations,
    code text NOT NULL,
    name text NOT NULL,
    symbol text NOT NULL,
    decimals smallint NOT NULL CHECK (decimals BETWEEN 0 AND 255),
    PRIMARY KEY (organization_id, code)
);
COMMENT ON TABLE currencies IS 'Units an organization added to the currencies of ISO 4217';
COMMENT ON COLUMN currencies.decimals IS 'Decimals of the minor unit: an invoice line is rounded to them';

CREATE TABLE metrics (
    organization_id uuid NOT NULL CONSTRAINT metrics_organization_id_fkey REFERENCES organizations,
    id uuid NOT NULL,
    name text NOT NULL,
    event_name text NOT NULL,
    aggregation_type text NOT NULL
        CHECK (aggregation_type IN ('count', 'sum', 'max', 'min', 'unique', 'average', 'latest')),
    property_name text,
    filters jsonb,
    is_cost_metric boolean NOT NULL,
    created_at timestamptz NOT NULL,
    archived_at timestamptz,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT metrics_name_key UNIQUE (organization_id, name),
    CONSTRAINT metrics_property_name_check CHECK ((aggregation_type = 'count') = (property_name IS NULL))
);
COMMENT ON TABLE metrics IS 'What is measured: which events count, and what of them';
COMMENT ON COLUMN metrics.property_name IS 'The event property that is aggregated; null when events are counted';
COMMENT ON COLUMN metrics.filters IS 'Which events count: lists numeric_filters and categorical_filters; null: all of the name';

CREATE TABLE features (
    organization_id uuid NOT NULL CONSTRAINT features_organization_id_fkey REFERENCES organizations,
    id uuid NOT NULL,
    name text NOT NULL,
    description text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (organization_id, id),
    CONSTRAINT features_name_key UNIQUE (organization_id, name)
);
COMMENT ON TABLE features IS 'What a plan grants that is not metered';

CREATE TABLE plans (
    organization_id uuid NOT NULL CONSTRAINT plans_organization_id_fkey REFERENCES organizations,
    id uuid NOT NULL,
    name text NOT NULL,
    description text,
    duration text CHECK (duration IN ('monthly', 'quarterly', 'yearly')),
    tags text[] NOT NULL,
    external_links jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (organization_id, id)
);
COMMENT ON TABLE plans IS 'Plans: a name over a sequence of versions';
COMMENT ON COLUMN plans.duration IS 'How long a subscription''s period is; null: each subscription names its own end';
COMMENT ON COLUMN plans.external_links IS 'The plan''s counterparts at payment providers: a list of {source, external_plan_id}';

CREATE TABLE plan_versions (
    organization_id uuid NOT NULL,
    id uuid NOT NULL,
    plan_id uuid NOT NULL,
    number bigint NOT NULL CHECK (number >= 1),
    localized_name text,
    description text,
    currency_code text NOT NULL,
    price_adjustment_name text,
    price_adjustment_description text,
    price_adjustment_kind text CHECK (price_adjustment_kind IN ('percentage', 'fixed', 'price_override')),
    price_adjustment_amount numeric,
    day_anchor smallint CHECK (day_anchor BETWEEN 1 AND 31),
    month_anchor smallint CHECK (month_anchor BETWEEN 1 AND 12),
    active_from timestamptz,
    active_to timestamptz,
    replace_with uuid,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT plan_versions_number_key UNIQUE (organization_id, plan_id, number),
    CONSTRAINT plan_versions_plan_id_fkey FOREIGN KEY (organization_id, plan_id) REFERENCES plans,
    CONSTRAINT plan_versions_replace_with_fkey FOREIGN KEY (organization_id, replace_with) REFERENCES plan_versions,
    CONSTRAINT plan_versions_active_check CHECK (active_to >= active_from),
    CONSTRAINT plan_versions_price_adjustment_check CHECK (
        (price_adjustment_name IS NULL) = (price_adjustment_kind IS NULL)
        AND (price_adjustment_name IS NULL) = (price_adjustment_amount IS NULL)
        AND (price_adjustment_name IS NOT NULL OR price_adjustment_description IS NULL)
    )
);
CREATE INDEX plan_versions_replace_with_idx ON plan_versions (organization_id, replace_with);
COMMENT ON TABLE plan_versions IS 'Immutable revisions of plans; subscriptions pin a version, never the plan';
COMMENT ON COLUMN plan_versions.price_adjustment_amount IS 'Percent for a percentage, otherwise major units of the currency; negative is a discount';
COMMENT ON COLUMN plan_versions.day_anchor IS 'Day of the month that periods are aligned to';
COMMENT ON COLUMN plan_versions.month_anchor IS 'Month that quarters and years are aligned to';
COMMENT ON COLUMN plan_versions.active_from IS 'From when on it can be subscribed to; null: not started';
COMMENT ON COLUMN plan_versions.active_to IS 'Until when it can be subscribed to; the instant itself is too late';
COMMENT ON COLUMN plan_versions.replace_with IS 'The version that its subscriptions renew to; its own id: they stay for good';

CREATE TABLE components (
    organization_id uuid NOT NULL,
    id uuid NOT NULL,
    plan_version_id uuid NOT NULL,
    position integer NOT NULL,
    metric_id uuid NOT NULL,
    tiers jsonb NOT NULL,
    is_bulk boolean NOT NULL,
    invoicing_interval_unit text CHECK (invoicing_interval_unit IN ('day', 'week', 'month', 'year')),
    invoicing_interval_count bigint CHECK (invoicing_interval_count >= 1),
    reset_interval_unit text CHECK (reset_interval_unit IN ('day', 'week', 'month', 'year')),
    reset_interval_count bigint CHECK (reset_interval_count >= 1),
    prepaid_units numeric CHECK (prepaid_units >= 0),
    prepaid_charge_behavior text CHECK (prepaid_charge_behavior IN ('prorate', 'full')),
    PRIMARY KEY (organization_id, id),
    CONSTRAINT components_metric_id_key UNIQUE (organization_id, plan_version_id, metric_id),
    CONSTRAINT components_plan_version_id_fkey FOREIGN KEY (organization_id, plan_version_id) REFERENCES plan_versions,
    CONSTRAINT components_metric_id_fkey FOREIGN KEY (organization_id, metric_id) REFERENCES metrics,
    CONSTRAINT components_invoicing_interval_check
        CHECK ((invoicing_interval_unit IS NULL) = (invoicing_interval_count IS NULL)),
    CONSTRAINT components_reset_interval_check CHECK ((reset_interval_unit IS NULL) = (reset_interval_count IS NULL)),
    CONSTRAINT components_prepaid_check CHECK (prepaid_units IS NULL OR prepaid_charge_behavior IS NOT NULL)
);
CREATE INDEX components_metric_id_idx ON components (organization_id, metric_id);
COMMENT ON TABLE components IS 'What a plan version charges by usage';
COMMENT ON COLUMN components.tiers IS 'A list of tiers {range_start, range_end, price}: quantities in metric units, costs in major units';
COMMENT ON COLUMN components.is_bulk IS 'Whether the one tier that holds the quantity prices all of it';
COMMENT ON COLUMN components.invoicing_interval_unit IS 'How often it is invoiced; null: once, at the end of the period';
COMMENT ON COLUMN components.reset_interval_unit IS 'How often usage starts again from zero; null: once a period';
COMMENT ON COLUMN components.prepaid_units IS 'Units paid in advance by default, in metric units';
COMMENT ON COLUMN components.prepaid_charge_behavior IS 'Not null: the component is prepaid';

CREATE TABLE recurring_charges (
    organization_id uuid NOT NULL,
    id uuid NOT NULL,
    plan_version_id uuid NOT NULL,
    position integer NOT NULL,
    name text NOT NULL,
    amount numeric NOT NULL,
    charge_timing text NOT NULL CHECK (charge_timing IN ('in_advance', 'in_arrears')),
    charge_behavior text NOT NULL CHECK (charge_behavior IN ('prorate', 'full')),
    invoicing_interval_unit text CHECK (invoicing_interval_unit IN ('day', 'week', 'month', 'year')),
    invoicing_interval_count bigint CHECK (invoicing_interval_count >= 1),
    reset_interval_unit text CHECK (reset_interval_unit IN ('day', 'week', 'month', 'year')),
    reset_interval_count bigint CHECK (reset_interval_count >= 1),
    PRIMARY KEY (organization_id, id),
    CONSTRAINT recurring_charges_name_key UNIQUE (organization_id, plan_version_id, name),
    CONSTRAINT recurring_charges_plan_version_id_fkey
        FOREIGN KEY (organization_id, plan_version_id) REFERENCES plan_versions,
    CONSTRAINT recurring_charges_invoicing_interval_check
        CHECK ((invoicing_interval_unit IS NULL) = (invoicing_interval_count IS NULL)),
    CONSTRAINT recurring_charges_reset_interval_check
        CHECK ((reset_interval_unit IS NULL) = (reset_interval_count IS NULL))
);
COMMENT ON TABLE recurring_charges IS 'What a plan version charges by time';
COMMENT ON COLUMN recurring_charges.amount IS 'Price of one full interval, in major units of the version''s currency';

CREATE TABLE plan_version_features (
    organization_id uuid NOT NULL,
    plan_version_id uuid NOT NULL,
    feature_id uuid NOT NULL,
    position integer NOT NULL,
    PRIMARY KEY (organization_id, plan_version_id, feature_id),
    CONSTRAINT plan_version_features_plan_version_id_fkey
        FOREIGN KEY (organization_id, plan_version_id) REFERENCES plan_versions,
    CONSTRAINT plan_version_features_feature_id_fkey FOREIGN KEY (organization_id, feature_id) REFERENCES features
);
CREATE INDEX plan_version_features_feature_id_idx ON plan_version_features (organization_id, feature_id);
COMMENT ON TABLE plan_version_features IS 'The features a plan version grants';

CREATE TABLE plan_version_targets (
    organization_id uuid NOT NULL,
    plan_version_id uuid NOT NULL,
    customer_key uuid NOT NULL,
    customer_id text NOT NULL,
    position integer NOT NULL,
    PRIMARY KEY (organization_id, plan_version_id, customer_key),
    CONSTRAINT plan_version_targets_plan_version_id_fkey
        FOREIGN KEY (organization_id, plan_version_id) REFERENCES plan_versions
);
COMMENT ON TABLE plan_version_targets IS 'The customers a plan version is made for; a version without any is public';
COMMENT ON COLUMN plan_version_targets.customer_key IS 'No foreign key: the catalogue does not refer to what customers own';

CREATE TABLE test_clocks (
    organization_id uuid NOT NULL CONSTRAINT test_clocks_organization_id_fkey REFERENCES organizations,
    id uuid NOT NULL,
    name text NOT NULL,
    frozen_time timestamptz NOT NULL,
    status text NOT NULL CHECK (status IN ('ready', 'advancing', 'failed')),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (organization_id, id)
);
CREATE INDEX test_clocks_advancing_idx ON test_clocks (created_at) WHERE status = 'advancing';
COMMENT ON TABLE test_clocks IS 'Clocks that customers can live by in place of the real one';
COMMENT ON COLUMN test_clocks.frozen_time IS 'Where the clock stands; while it advances, where it will stand';
