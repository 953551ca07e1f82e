SELECT owned.customer_key::text AS subject, format('a row in %s belongs to another organization', owned.name) AS problem
FROM (
    SELECT 'subscriptions' AS name, customer_key, organization_id FROM subscriptions
    UNION ALL SELECT 'billing_records', customer_key, organization_id FROM billing_records
    UNION ALL SELECT 'invoices', customer_key, organization_id FROM invoices
    UNION ALL SELECT 'invoice_lines', customer_key, organization_id FROM invoice_lines
    UNION ALL SELECT 'credits', customer_key, organization_id FROM credits
    UNION ALL SELECT 'credit_entries', customer_key, organization_id FROM credit_entries
    UNION ALL SELECT 'payments', customer_key, organization_id FROM payments
    UNION ALL SELECT 'credit_notes', customer_key, organization_id FROM credit_notes
    UNION ALL SELECT 'credit_note_lines', customer_key, organization_id FROM credit_note_lines
    UNION ALL SELECT 'billing_due', customer_key, organization_id FROM billing_due
    UNION ALL SELECT 'messages', customer_key, organization_id FROM messages
    -- An address may be taken for a customer whom a lane on another server has not committed yet.
    UNION ALL SELECT 'customer_emails', email.customer_key, email.organization_id
    FROM customer_emails email
    LEFT JOIN lane_reservations reserved
        ON reserved.organization_id = email.organization_id AND reserved.kind = 'email' AND reserved.name = email.email
    WHERE reserved.token IS NULL
) owned
LEFT JOIN customers customer USING (customer_key)
WHERE customer.organization_id IS DISTINCT FROM owned.organization_id
