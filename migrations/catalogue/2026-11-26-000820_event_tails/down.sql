DROP TABLE passed_events;
DROP TABLE event_watches;
