-- Credit notes have a sequence of their own in each organization, without gaps as that of invoices.

ALTER TABLE invoice_counters ADD COLUMN last_credit_note bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN invoice_counters.last_credit_note IS 'The sequence of the latest credit note';
