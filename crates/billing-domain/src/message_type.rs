//! The kinds of facts that messages are about.

choices! {
    /// What kind of fact a message is about.
    pub MessageType {
        /// A customer was created.
        CustomerCreated = "customer.created",
        /// A customer's billing failed too often, and is left alone until somebody looks.
        CustomerBillingParked = "customer.billing_parked",
        /// A subscription was created.
        SubscriptionCreated = "subscription.created",
        /// A subscription took the place of one whose period ended.
        SubscriptionRenewed = "subscription.renewed",
        /// End, renewal, metadata, prepaid units or an add-on of a subscription changed.
        SubscriptionChanged = "subscription.changed",
        /// A subscription took the place of one to another plan.
        SubscriptionSwitched = "subscription.switched",
        /// A subscription was cancelled.
        SubscriptionCancelled = "subscription.cancelled",
        /// An add-on was attached to a subscription.
        AddonAttached = "addon.attached",
        /// An invoice was issued.
        InvoiceCreated = "invoice.created",
        /// An invoice was paid, or had nothing to pay when it was issued.
        InvoicePaid = "invoice.paid",
        /// An invoice fell due and was not paid.
        InvoicePastDue = "invoice.past_due",
        /// An invoice was withdrawn.
        InvoiceVoided = "invoice.voided",
        /// A credit was granted.
        CreditCreated = "credit.created",
        /// A credit paid for a part of an invoice.
        CreditDrawn = "credit.drawn",
        /// What a credit had left ran out of time.
        CreditExpired = "credit.expired",
        /// What a credit had left was taken away.
        CreditVoided = "credit.voided",
        /// A credit note was issued.
        CreditNoteCreated = "credit_note.created",
        /// A credit note was voided.
        CreditNoteVoided = "credit_note.voided",
        /// Something was charged once, with the next invoice or at once.
        OneOffLineCreated = "one_off_line.created",
        /// A one-off line was taken away before it was billed.
        OneOffLineRemoved = "one_off_line.removed",
        /// A plan version got the instant from which on it can be subscribed to.
        PlanVersionPublished = "plan.version_published",
        /// A metric was created.
        MetricCreated = "metric.created",
        /// A figure of a customer's reached the threshold of a usage alert.
        UsageAlertTriggered = "usage_alert.triggered",
        /// A webhook endpoint failed for five days or said that it is gone, and is sent nothing any more.
        WebhookEndpointDisabled = "webhook_endpoint.disabled",
    }
}
