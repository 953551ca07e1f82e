ALTER TABLE lanes DROP COLUMN host, DROP COLUMN port, DROP COLUMN database_name;
