DROP TABLE subscription_marks, invoicing_counts, billing_records, subscriptions, billing_due, customers;
DROP FUNCTION mark_subscriptions;
DROP FUNCTION check_billing_record_revision;
