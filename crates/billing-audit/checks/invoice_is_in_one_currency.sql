SELECT invoice.number AS subject,
    format('is in %s, line %s is of a version in %s', invoice.currency_code, line.position, version.currency_code) AS problem
FROM invoice_lines line
JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
JOIN subscriptions subscription ON subscription.customer_key = line.customer_key AND subscription.id = line.subscription_id
JOIN plan_versions version ON version.organization_id = line.organization_id AND version.id = subscription.plan_version_id
WHERE version.currency_code <> invoice.currency_code
