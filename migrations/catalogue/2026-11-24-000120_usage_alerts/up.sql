-- Figures and thresholds that organizations want to be told of.

CREATE TABLE usage_alerts (
    organization_id uuid NOT NULL CONSTRAINT usage_alerts_organization_id_fkey REFERENCES organizations,
    id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('metric_usage', 'spend', 'credit_balance', 'prepaid_units')),
    metric_id uuid,
    threshold numeric NOT NULL CHECK (threshold >= 0),
    unit text NOT NULL CHECK (unit IN ('absolute', 'percent_of_limit', 'percent_of_free')),
    currency_code text,
    customer_key uuid,
    customer_id text,
    plan_version_id uuid,
    created_at timestamptz NOT NULL,
    is_introduced boolean NOT NULL DEFAULT false,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT usage_alerts_metric_id_fkey FOREIGN KEY (organization_id, metric_id) REFERENCES metrics,
    CONSTRAINT usage_alerts_plan_version_id_fkey FOREIGN KEY (organization_id, plan_version_id) REFERENCES plan_versions,
    CONSTRAINT usage_alerts_metric_id_check CHECK ((metric_id IS NOT NULL) = (kind IN ('metric_usage', 'prepaid_units'))),
    CONSTRAINT usage_alerts_currency_code_check CHECK ((currency_code IS NULL) = (metric_id IS NOT NULL)),
    CONSTRAINT usage_alerts_customer_key_check
        CHECK ((customer_key IS NULL) = (customer_id IS NULL) AND (customer_key IS NULL OR plan_version_id IS NULL))
);
CREATE INDEX usage_alerts_metric_id_idx ON usage_alerts (organization_id, metric_id);
CREATE INDEX usage_alerts_plan_version_id_idx ON usage_alerts (organization_id, plan_version_id);
CREATE INDEX usage_alerts_new_idx ON usage_alerts (created_at) WHERE NOT is_introduced;
COMMENT ON TABLE usage_alerts IS 'Figures and thresholds that organizations are told of once for each customer and interval';
COMMENT ON COLUMN usage_alerts.customer_key IS 'About this customer alone. No foreign key: the catalogue does not refer to what customers own';
COMMENT ON COLUMN usage_alerts.is_introduced IS 'Whether everybody was marked whose figure may have reached the threshold before it was made';

-- Not when it is introduced: nothing that it says changes.
CREATE TRIGGER usage_alerts_catalog_version AFTER INSERT OR DELETE ON usage_alerts
    FOR EACH ROW EXECUTE FUNCTION renew_catalog_version();
