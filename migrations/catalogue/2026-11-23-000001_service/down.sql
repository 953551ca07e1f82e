DROP TABLE metric_rollups, ingest_epochs, ingest_lanes, invoice_counters, invoice_numbers, customer_emails, idempotency_keys;
