-- A message that gets its place leaves the index of those without one, so its row is written anew with all its index entries, whatever room
-- its page has: room left free served nothing.

ALTER TABLE organization_messages SET (fillfactor = 100);
