DROP TABLE uncounted_events;
DROP TABLE event_minutes;
