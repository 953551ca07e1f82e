DROP TABLE invoice_counters;
DROP TABLE invoice_numbers;
DROP TABLE invoice_lines;
DROP TABLE invoices;
DROP FUNCTION refuse_invoice_change;
DROP FUNCTION check_invoice_line_position;
DROP FUNCTION check_invoice_amount;
