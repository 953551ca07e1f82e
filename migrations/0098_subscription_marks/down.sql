DROP FUNCTION has_events_ahead;
DROP TRIGGER subscriptions_mark_deleted ON subscriptions;
DROP TRIGGER subscriptions_mark_updated ON subscriptions;
DROP TRIGGER subscriptions_mark_inserted ON subscriptions;
DROP FUNCTION mark_subscriptions;
DROP TABLE subscription_marks;
