-- Customers that the billing run leaves alone because their billing failed too often. The longest overdue come first.
SELECT customer.customer_id AS subject,
    format('not billed since it was due at %s: failed %s times, the last time at %s: %s', due.due_at, due.failures,
        due.failed_at, due.failure) AS problem
FROM billing_due due
JOIN customers customer USING (customer_key)
WHERE due.is_parked
ORDER BY due.due_at, customer.customer_id
LIMIT 100
