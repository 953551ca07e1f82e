DROP TRIGGER invoices_summed ON invoices;
DROP TRIGGER invoices_taken_off ON invoices;
DROP FUNCTION sum_invoiced;
DROP TABLE invoiced_hours;
