DROP TABLE metric_rollups, ingest_versions, ingest_lanes, invoice_counters, invoice_numbers, customer_emails, idempotency_keys;
