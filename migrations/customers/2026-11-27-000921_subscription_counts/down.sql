DROP TRIGGER subscriptions_counted ON subscriptions;
DROP TRIGGER subscriptions_counted_anew ON subscriptions;
DROP FUNCTION count_subscription;
DROP TABLE subscription_counts;
