//! Which scope of an API key a call needs.

use actix_web::http::Method;
use billing_domain::api_key::KeyScope;

/// The nouns whose changes are money.
const BILLING: &[&str] = &[
    "approvals",
    "billing_queue",
    "books_audits",
    "credit_notes",
    "credits",
    "customers",
    "invoices",
    "jobs",
    "payments",
    "subscriptions",
];
/// The questions whether somebody may go on.
const ACCESS_CHECKS: &[&str] =
    &["customer_feature_access", "customer_metric_access", "feature_access", "metric_access"];
/// Usage events on their way in.
const INGEST: &[&str] = &["events", "track", "verify_idems_received"];
/// What puts such events right, also after they were billed.
const CORRECTIONS: &[&str] = &["/api/events/amend/", "/api/events/void/"];
/// What is about those who may call: whoever reads it learns about people.
const ADMIN: &[&str] = &["audit_log", "users"];

/// The scope that a call needs, by its noun; `None`: a key of any. A new noun is an administrator's until it says otherwise.
pub fn of(method: &Method, path: &str) -> Option<KeyScope> {
    let noun = path.trim_start_matches("/api/").split('/').next().unwrap_or_default();
    Some(match noun {
        "ping" => return None,
        _ if CORRECTIONS.contains(&path) => KeyScope::Billing,
        noun if ACCESS_CHECKS.contains(&noun) => KeyScope::AccessCheck,
        noun if INGEST.contains(&noun) && *method == Method::POST => KeyScope::Ingest,
        noun if ADMIN.contains(&noun) => KeyScope::Admin,
        _ if *method == Method::GET => KeyScope::Read,
        noun if BILLING.contains(&noun) => KeyScope::Billing,
        _ => KeyScope::Admin,
    })
}
