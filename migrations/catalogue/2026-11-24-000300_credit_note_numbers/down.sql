ALTER TABLE invoice_counters DROP COLUMN last_credit_note;
