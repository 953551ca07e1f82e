DROP TABLE subscription_versions, invoicing_counts, billing_records, subscriptions, billing_due, customers;
DROP FUNCTION renew_subscription_versions;
DROP FUNCTION check_billing_record_revision;
