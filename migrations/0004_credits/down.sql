DROP TABLE credit_entries;
DROP FUNCTION refuse_credit_entry_change;
DROP FUNCTION add_credit_entry;
DROP TABLE credits;
