-- Messages by their age: whoever has them sent again since an instant begins at the first of those, which may stand behind older ones
-- that were placed late.

CREATE INDEX feed_entries_written_at_idx ON feed_entries (organization_id, written_at, position);
