DROP TABLE feed_entries, message_counters, organization_messages;
