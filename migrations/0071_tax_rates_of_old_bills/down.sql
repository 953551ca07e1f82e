-- What the records learned is true; nothing is forgotten.
SELECT 1;
