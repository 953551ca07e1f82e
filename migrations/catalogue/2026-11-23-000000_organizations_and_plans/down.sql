DROP TABLE catalog_versions, test_clocks, plan_version_targets, plan_version_features, recurring_charges, components, plan_versions,
    plans, features, metrics, currencies, api_keys, organizations;
DROP FUNCTION renew_catalog_version;
