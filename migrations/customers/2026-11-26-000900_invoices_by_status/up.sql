-- What invoices are listed by where only those with one status are wanted: the few that are voided or unpaid among very many.
CREATE INDEX invoices_payment_status_idx ON invoices (organization_id, payment_status, issued_at DESC, id DESC);
