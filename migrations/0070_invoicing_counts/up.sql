-- A bound on billing that goes on and on holds across transactions, so what was invoiced by schedule is counted.

CREATE TABLE invoicing_counts (
    customer_key uuid NOT NULL,
    subscription_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    invoiced_on date NOT NULL,
    invoices bigint NOT NULL CHECK (invoices > 0),
    PRIMARY KEY (customer_key, subscription_id),
    CONSTRAINT invoicing_counts_subscription_id_fkey
        FOREIGN KEY (customer_key, subscription_id) REFERENCES subscriptions
);
COMMENT ON TABLE invoicing_counts IS 'How often a subscription was invoiced by schedule on the latest day that it was';
COMMENT ON COLUMN invoicing_counts.invoiced_on IS 'That UTC day, in the customer''s own time';
COMMENT ON COLUMN invoicing_counts.invoices IS 'How often on that day';
