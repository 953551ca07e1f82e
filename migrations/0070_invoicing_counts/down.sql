DROP TABLE invoicing_counts;
