DROP TABLE credit_entries, credits, invoice_lines, invoices;
DROP FUNCTION refuse_credit_entry_change;
DROP FUNCTION add_credit_entry;
DROP FUNCTION refuse_invoice_change;
DROP FUNCTION check_invoice_line_position;
DROP FUNCTION check_invoice_amount;
