DROP TABLE billing_records;
DROP FUNCTION check_billing_record_revision;
DROP TABLE subscriptions;
DROP TABLE billing_due;
DROP TABLE customer_emails;
DROP TABLE customers;
DROP EXTENSION btree_gist;
