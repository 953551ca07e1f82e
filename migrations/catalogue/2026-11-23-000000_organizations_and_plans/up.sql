-- Organizations and what they offer: small tables, read often, changed seldom.
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
    expires_at timestamptz,
    kind text NOT NULL DEFAULT 'api_key' CONSTRAINT api_keys_kind_check CHECK (kind IN ('api_key', 'access_token'))
);
CREATE INDEX api_keys_organization_id_idx ON api_keys (organization_id, created_at);
COMMENT ON TABLE api_keys IS 'Who may speak for an organization; a deleted key is worthless from the commit on';
COMMENT ON COLUMN api_keys.prefix IS 'First 8 characters of the key: finds it before the organization is known';
COMMENT ON COLUMN api_keys.digest IS 'Keyed digest of the whole key; the key itself is kept nowhere';
COMMENT ON COLUMN api_keys.expires_at IS 'From this instant on the key is worthless; null: never';
COMMENT ON COLUMN api_keys.kind IS 'An access token opens nothing by itself: it goes beside an API key';

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
    metric_type text NOT NULL,
    event_type text CHECK (event_type IN ('total', 'delta')),
    granularity text
        CHECK (granularity IN ('seconds', 'minutes', 'hours', 'days', 'months', 'quarters', 'years', 'total')),
    proration text
        CHECK (proration IN ('seconds', 'minutes', 'hours', 'days', 'months', 'quarters', 'years', 'total')),
    custom_sql text,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT metrics_name_key UNIQUE (organization_id, name),
    CONSTRAINT metrics_property_name_check CHECK ((aggregation_type = 'count') = (property_name IS NULL)),
    CONSTRAINT metrics_metric_type_check CHECK (metric_type IN ('counter', 'gauge', 'rate', 'custom')),
    CONSTRAINT metrics_gauge_check CHECK (
        (metric_type = 'gauge') = (event_type IS NOT NULL) AND (metric_type = 'gauge') = (proration IS NOT NULL)
    ),
    CONSTRAINT metrics_granularity_needed_check
        CHECK (metric_type NOT IN ('gauge', 'rate') OR granularity IS NOT NULL),
    CONSTRAINT metrics_custom_sql_check CHECK ((metric_type = 'custom') = (custom_sql IS NOT NULL))
);
COMMENT ON TABLE metrics IS 'What is measured: which events count, and what of them';
COMMENT ON COLUMN metrics.property_name IS 'The event property that is aggregated; null when events are counted';
COMMENT ON COLUMN metrics.filters IS 'Which events count: lists numeric_filters and categorical_filters; null: all of the name';
COMMENT ON COLUMN metrics.metric_type IS 'Whether events are counted, set or move a level, or are counted in a sliding window';
COMMENT ON COLUMN metrics.event_type IS 'Of a gauge: whether the property is the new level or by how much it moves';
COMMENT ON COLUMN metrics.granularity IS 'Of a gauge: what one unit is per; of a rate: its window';
COMMENT ON COLUMN metrics.proration IS 'Of a gauge: the buckets it is weighed by; total: none';
COMMENT ON COLUMN metrics.custom_sql IS 'Of a custom metric: its query as it was sent; it is compiled, and never run as it stands';

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
    billing_frequency text CHECK (billing_frequency IN ('one_time', 'recurring')),
    invoice_when text CHECK (invoice_when IN ('invoice_on_attach', 'invoice_on_subscription_end')),
    deleted_at timestamptz,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT plans_addon_check CHECK ((billing_frequency IS NULL) = (invoice_when IS NULL))
);
COMMENT ON TABLE plans IS 'Plans: a name over a sequence of versions';
COMMENT ON COLUMN plans.duration IS 'How long a subscription''s period is; null: each subscription names its own end';
COMMENT ON COLUMN plans.external_links IS 'The plan''s counterparts at payment providers: a list of {source, external_plan_id}';
COMMENT ON COLUMN plans.billing_frequency IS 'How often an add-on is charged; null: it is a plan, not an add-on';
COMMENT ON COLUMN plans.invoice_when IS 'When what an add-on charges in advance is invoiced';
COMMENT ON COLUMN plans.deleted_at IS 'From when on nobody can subscribe to it; the row stays for what was billed';

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
    transition_to uuid,
    deleted_at timestamptz,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT plan_versions_plan_id_fkey FOREIGN KEY (organization_id, plan_id) REFERENCES plans,
    CONSTRAINT plan_versions_replace_with_fkey FOREIGN KEY (organization_id, replace_with) REFERENCES plan_versions,
    CONSTRAINT plan_versions_transition_to_fkey FOREIGN KEY (organization_id, transition_to) REFERENCES plans,
    CONSTRAINT plan_versions_active_check CHECK (active_to >= active_from),
    CONSTRAINT plan_versions_price_adjustment_check CHECK (
        (price_adjustment_name IS NULL) = (price_adjustment_kind IS NULL)
        AND (price_adjustment_name IS NULL) = (price_adjustment_amount IS NULL)
        AND (price_adjustment_name IS NOT NULL OR price_adjustment_description IS NULL)
    )
);
-- Not unique: one number may exist once in every currency, and for every customer that a version is made for. The
-- catalogue's lock keeps it so.
CREATE INDEX plan_versions_plan_id_idx ON plan_versions (organization_id, plan_id, number);
CREATE INDEX plan_versions_replace_with_idx ON plan_versions (organization_id, replace_with);
CREATE INDEX plan_versions_transition_to_idx ON plan_versions (organization_id, transition_to);
COMMENT ON TABLE plan_versions IS 'Immutable revisions of plans; subscriptions pin a version, never the plan';
COMMENT ON COLUMN plan_versions.price_adjustment_amount IS 'Percent for a percentage, otherwise major units of the currency; negative is a discount';
COMMENT ON COLUMN plan_versions.day_anchor IS 'Day of the month that periods are aligned to';
COMMENT ON COLUMN plan_versions.month_anchor IS 'Month that quarters and years are aligned to';
COMMENT ON COLUMN plan_versions.active_from IS 'From when on it can be subscribed to; null: not started';
COMMENT ON COLUMN plan_versions.active_to IS 'Until when it can be subscribed to; the instant itself is too late';
COMMENT ON COLUMN plan_versions.replace_with IS 'The version that its subscriptions renew to; its own id: they stay for good';
COMMENT ON COLUMN plan_versions.transition_to IS 'The plan that its subscriptions renew to; it comes before replace_with';
COMMENT ON COLUMN plan_versions.deleted_at IS 'From when on nobody can subscribe to it; the row stays for what was billed';

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

-- A version on each organization's catalogue, so that a process can tell whether what it remembers of it still holds.
-- Triggers set it: whoever changes the catalogue, by whatever way, is seen by every process from the commit on.

CREATE TABLE catalog_versions (
    organization_id uuid PRIMARY KEY CONSTRAINT catalog_versions_organization_id_fkey REFERENCES organizations,
    version uuid NOT NULL
);
COMMENT ON TABLE catalog_versions IS 'Another version with every change of an organization''s catalogue, so that it can be remembered';
COMMENT ON COLUMN catalog_versions.version IS 'Random, and never the same again: also a database that was restored cannot be taken for a later one';

CREATE FUNCTION renew_catalog_version() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed jsonb := to_jsonb(coalesce(NEW, OLD));
BEGIN
    INSERT INTO catalog_versions (organization_id, version)
    VALUES (coalesce(changed ->> 'organization_id', changed ->> 'id')::uuid, gen_random_uuid())
    ON CONFLICT (organization_id) DO UPDATE SET version = excluded.version;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION renew_catalog_version IS 'Gives the catalogue of the changed row''s organization another version';

-- An organization that still has a catalogue cannot be deleted.
CREATE TRIGGER organizations_catalog_version AFTER INSERT OR UPDATE ON organizations
    FOR EACH ROW EXECUTE FUNCTION renew_catalog_version();
CREATE TRIGGER currencies_catalog_version AFTER INSERT OR UPDATE OR DELETE ON currencies
    FOR EACH ROW EXECUTE FUNCTION renew_catalog_version();
CREATE TRIGGER metrics_catalog_version AFTER INSERT OR UPDATE OR DELETE ON metrics
    FOR EACH ROW EXECUTE FUNCTION renew_catalog_version();
CREATE TRIGGER plans_catalog_version AFTER INSERT OR UPDATE OR DELETE ON plans
    FOR EACH ROW EXECUTE FUNCTION renew_catalog_version();
CREATE TRIGGER plan_versions_catalog_version AFTER INSERT OR UPDATE OR DELETE ON plan_versions
    FOR EACH ROW EXECUTE FUNCTION renew_catalog_version();
CREATE TRIGGER components_catalog_version AFTER INSERT OR UPDATE OR DELETE ON components
    FOR EACH ROW EXECUTE FUNCTION renew_catalog_version();
CREATE TRIGGER recurring_charges_catalog_version AFTER INSERT OR UPDATE OR DELETE ON recurring_charges
    FOR EACH ROW EXECUTE FUNCTION renew_catalog_version();
CREATE TRIGGER plan_version_features_catalog_version AFTER INSERT OR UPDATE OR DELETE ON plan_version_features
    FOR EACH ROW EXECUTE FUNCTION renew_catalog_version();
CREATE TRIGGER plan_version_targets_catalog_version AFTER INSERT OR UPDATE OR DELETE ON plan_version_targets
    FOR EACH ROW EXECUTE FUNCTION renew_catalog_version();

-- Few rows that are written again and again: left to the usual settings, the table has long grown to many times its size.
ALTER TABLE catalog_versions SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
