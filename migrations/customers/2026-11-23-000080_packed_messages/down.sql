ALTER TABLE messages SET (fillfactor = 80);
