ALTER TABLE organization_messages SET (fillfactor = 80);
