-- Credit notes that settle what corrected events made too much of what an invoice charged: a part of the price comes back by them, as it
-- would on the next invoice, where other notes waive a part of whatever the price is.

ALTER TABLE credit_notes ADD COLUMN is_correction boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN credit_notes.is_correction IS 'Whether it gives back what corrected events made too much, and so counts as given back, not as waived';
