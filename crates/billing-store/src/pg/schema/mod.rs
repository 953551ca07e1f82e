//! The tables as Diesel sees them, by what they are about. A test compares this with what the migrations make.

mod audit;
mod catalog;
mod credit_note;
mod customer;
mod event;
mod invoice;
mod message;
mod service;
mod usage_alert;
mod user;
mod webhook;

pub(crate) use self::audit::{audit_entries, organization_audit_entries};
#[cfg(feature = "testing")]
pub(crate) use self::catalog::catalog_versions;
pub(crate) use self::catalog::{
    components, currencies, features, metrics, organizations, plan_version_features, plan_version_targets,
    plan_versions, plans, recurring_charges, test_clocks,
};
pub(crate) use self::credit_note::{credit_note_lines, credit_notes};
#[cfg(feature = "testing")]
pub(crate) use self::customer::subscription_counts;
pub(crate) use self::customer::{
    billing_due, billing_records, credit_entries, credits, customer_emails, customers, invoicing_counts,
    subscription_versions, subscriptions,
};
pub(crate) use self::event::{
    event_arrivals, event_corrections, event_names, events, hot_buckets, ingest_key_ranges, ingest_versions,
    metric_rollups, rollup_versions, usage_rollup,
};
#[cfg(feature = "testing")]
pub(crate) use self::event::{event_minutes, event_watches, passed_events, uncounted_events};
#[cfg(feature = "testing")]
pub(crate) use self::invoice::invoiced_hours;
pub(crate) use self::invoice::{invoice_counters, invoice_lines, invoice_numbers, invoices, payments};
pub(crate) use self::message::{feed_entries, message_counters, messages, organization_messages};
pub(crate) use self::service::{
    api_keys, approvals, books_audits, idempotency_keys, jobs, key_pepper, lane_reservations, lane_tokens, lanes, nodes,
};
#[cfg(feature = "testing")]
pub(crate) use self::service::{catalogue_position, returned_numbers};
pub(crate) use self::usage_alert::{usage_alert_firings, usage_alerts};
#[cfg(feature = "testing")]
pub(crate) use self::usage_alert::{usage_alert_headroom, usage_alert_looks, usage_alert_marks};
pub(crate) use self::user::{memberships, sign_in_attempts, user_identities, user_invitations, user_sessions, users};
pub(crate) use self::webhook::{webhook_attempts, webhook_endpoints, webhook_pending};

diesel::allow_tables_to_appear_in_same_query!(
    memberships,
    organizations,
    user_identities,
    user_invitations,
    user_sessions,
    users
);
diesel::allow_tables_to_appear_in_same_query!(
    api_keys,
    billing_due,
    billing_records,
    components,
    credit_entries,
    credits,
    currencies,
    customer_emails,
    customers,
    event_arrivals,
    event_corrections,
    event_names,
    events,
    features,
    hot_buckets,
    idempotency_keys,
    ingest_key_ranges,
    ingest_versions,
    invoice_counters,
    invoice_lines,
    invoice_numbers,
    invoices,
    invoicing_counts,
    jobs,
    lanes,
    metric_rollups,
    metrics,
    organizations,
    payments,
    plan_version_features,
    plan_version_targets,
    plan_versions,
    plans,
    recurring_charges,
    rollup_versions,
    subscription_versions,
    subscriptions,
    test_clocks,
    usage_rollup,
);
