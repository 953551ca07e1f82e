-- What a customer is charged once, until an invoice bills it: then it is a line of that invoice, and here no more.
ALTER TABLE customers ADD COLUMN one_off_lines jsonb NOT NULL DEFAULT '[]';
COMMENT ON COLUMN customers.one_off_lines IS 'One-off lines that wait for the next invoice in their currency, in the order in which they were made; what is billed is a line of an invoice';
