//! Every call of the service, in one table.

use crate::endpoint::Endpoint;
use crate::{
    access_token, addon, api_key, approval, audit, billing_queue, books_audit, credit, credit_note, currency, customer,
    deprecated_access, docs, event, event_correction, event_receipt, feature, feature_access, feed, health, invoice,
    job, metric, metric_access, metric_preview, organization, overview, ping, plan, subscription, subscription_preview,
    test_clock, track, usage, usage_alert, user, verify_idems, webhook,
};

/// The table, resource by resource.
pub fn table() -> Vec<Endpoint> {
    [
        health::endpoints(),
        docs::endpoints(),
        ping::endpoints(),
        track::endpoints(),
        verify_idems::endpoints(),
        event::endpoints(),
        event_receipt::endpoints(),
        event_correction::endpoints(),
        metric_access::endpoints(),
        usage::endpoints(),
        metric::endpoints(),
        metric_preview::endpoints(),
        feature::endpoints(),
        feature_access::endpoints(),
        deprecated_access::endpoints(),
        plan::endpoints(),
        addon::endpoints(),
        customer::endpoints(),
        subscription::endpoints(),
        subscription_preview::endpoints(),
        invoice::endpoints(),
        credit::endpoints(),
        credit_note::endpoints(),
        feed::endpoints(),
        webhook::endpoints(),
        job::endpoints(),
        usage_alert::endpoints(),
        test_clock::endpoints(),
        overview::endpoints(),
        billing_queue::endpoints(),
        books_audit::endpoints(),
        organization::endpoints(),
        currency::endpoints(),
        api_key::endpoints(),
        user::endpoints(),
        approval::endpoints(),
        audit::endpoints(),
        access_token::endpoints(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
