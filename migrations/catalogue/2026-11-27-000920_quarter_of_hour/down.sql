DROP FUNCTION quarter_of_hour_before;
