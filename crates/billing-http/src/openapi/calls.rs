//! Which codes a call can answer with: those of its rules, listed here, and those that follow from what it takes.

use actix_web::http::Method;
use billing_domain::FieldCode;

use crate::endpoint::{Access, Endpoint};
use crate::error::codes::{
    AMBIGUOUS_PLAN_VERSION, AUTHENTICATION_FAILED, BEYOND_WINDOW, CATCHING_UP, CONFLICT_RETRY, CREDIT_EXPIRY_IN_PAST,
    CREDIT_NOT_ACTIVE, CUSTOM_METRIC_FAILED, Code, DB_POOL_EXHAUSTED, DB_UNAVAILABLE, DEADLINE_EXCEEDED,
    DUPLICATE_JSON_KEY, DUPLICATE_RESOURCE, IDEMPOTENCY_KEY_IN_USE, IDEMPOTENCY_KEY_INVALID, IDEMPOTENCY_KEY_REUSED,
    INTERNAL_ERROR, INVALID_ENCODING, INVALID_OPERATION, INVALID_STATE, JSON_TOO_DEEP, MISSING_SCOPE,
    NO_MATCHING_PLAN_VERSION, NOT_AUTHENTICATED, NOT_FOUND, ONE_OFF_LINE_BILLED, OVERLAPPING_PLANS, PARSE_ERROR,
    PAYLOAD_TOO_LARGE, PLAN_NOT_AVAILABLE_TO_CUSTOMER, PREPAYMENT_CANT_DETERMINE_UNITS, READ_ONLY_MODE,
    REQUEST_TIMEOUT, RESOURCE_NOT_FOUND, SECOND_PERSON_NEEDED, SHUTTING_DOWN, STORAGE_UNAVAILABLE,
    TAX_RATE_UNAVAILABLE, TEST_CLOCK_ADVANCING, TOO_MANY_IN_FLIGHT, UNSUPPORTED_MEDIA_TYPE, URI_TOO_LONG,
};

/// Codes of any call at all.
const EVERYWHERE: &[&Code] = &[
    &INVALID_ENCODING,
    &URI_TOO_LONG,
    &TOO_MANY_IN_FLIGHT,
    &INTERNAL_ERROR,
    &DB_UNAVAILABLE,
    &DB_POOL_EXHAUSTED,
    &STORAGE_UNAVAILABLE,
    &READ_ONLY_MODE,
    &SHUTTING_DOWN,
    &DEADLINE_EXCEEDED,
];
const WITH_BODY: &[&Code] =
    &[&PARSE_ERROR, &DUPLICATE_JSON_KEY, &JSON_TOO_DEEP, &REQUEST_TIMEOUT, &PAYLOAD_TOO_LARGE, &UNSUPPORTED_MEDIA_TYPE];
/// Of a call that takes no body, and looks whether one with fields was sent.
const WITHOUT_BODY: &[&Code] = &[&REQUEST_TIMEOUT, &PAYLOAD_TOO_LARGE];
const WITH_KEY: &[&Code] = &[&NOT_AUTHENTICATED, &AUTHENTICATION_FAILED];
const WITH_IDEMPOTENCY_KEY: &[&Code] = &[&IDEMPOTENCY_KEY_INVALID, &IDEMPOTENCY_KEY_IN_USE, &IDEMPOTENCY_KEY_REUSED];

/// What can stand in the way of a new subscription to a plan.
const OF_A_NEW_SUBSCRIPTION: &[&Code] = &[
    &NO_MATCHING_PLAN_VERSION,
    &AMBIGUOUS_PLAN_VERSION,
    &PLAN_NOT_AVAILABLE_TO_CUSTOMER,
    &PREPAYMENT_CANT_DETERMINE_UNITS,
    &OVERLAPPING_PLANS,
    &TEST_CLOCK_ADVANCING,
    &CATCHING_UP,
];
const OF_ANOTHER_PLAN: &[&Code] = &[
    &NO_MATCHING_PLAN_VERSION,
    &AMBIGUOUS_PLAN_VERSION,
    &PLAN_NOT_AVAILABLE_TO_CUSTOMER,
    &PREPAYMENT_CANT_DETERMINE_UNITS,
    &OVERLAPPING_PLANS,
    &INVALID_STATE,
    &TEST_CLOCK_ADVANCING,
    &CATCHING_UP,
];
const OF_AN_ADDON: &[&Code] = &[&PREPAYMENT_CANT_DETERMINE_UNITS, &INVALID_STATE, &TEST_CLOCK_ADVANCING, &CATCHING_UP];
const OF_A_RUNNING_SUBSCRIPTION: &[&Code] = &[&INVALID_STATE, &TEST_CLOCK_ADVANCING, &CATCHING_UP];

/// Only what is paid beyond what is due waits until a customer has caught up.
const OF_A_PAYMENT: &[&Code] = &[&DUPLICATE_RESOURCE, &INVALID_STATE, &TEST_CLOCK_ADVANCING, &CATCHING_UP];

const OF_A_CORRECTION: &[&Code] = &[&BEYOND_WINDOW, &TEST_CLOCK_ADVANCING, &CATCHING_UP];

/// Codes of the rules that calls with `PATCH` carry out, by path.
const RULES_OF_PATCH: &[(&str, &[&Code])] = &[
    ("/api/customers/{customer_id}/", &[&DUPLICATE_RESOURCE, &TEST_CLOCK_ADVANCING, &CATCHING_UP]),
    ("/api/invoices/{invoice_id}/", &[&INVALID_OPERATION, &TEST_CLOCK_ADVANCING]),
    ("/api/users/{user_id}/", &[&INVALID_OPERATION]),
];

/// Codes of the rules that calls with `DELETE` carry out, by path.
const RULES_OF_DELETE: &[(&str, &[&Code])] = &[
    (
        "/api/customers/{customer_id}/one_off_lines/{one_off_line_id}/",
        &[&ONE_OFF_LINE_BILLED, &TEST_CLOCK_ADVANCING, &CATCHING_UP],
    ),
    ("/api/approvals/{approval_id}/", &[&SECOND_PERSON_NEEDED, &INVALID_STATE]),
    ("/api/users/{user_id}/", &[&INVALID_OPERATION]),
];

/// Codes of the rules that calls with `POST` carry out, by path.
const RULES: &[(&str, &[&Code])] = &[
    ("/api/events/void/", OF_A_CORRECTION),
    ("/api/events/amend/", OF_A_CORRECTION),
    ("/api/metrics/", &[&DUPLICATE_RESOURCE]),
    ("/api/metrics/preview/", &[&CUSTOM_METRIC_FAILED]),
    ("/api/metrics/{metric_id}/archive/", &[&INVALID_OPERATION]),
    ("/api/features/", &[&DUPLICATE_RESOURCE]),
    ("/api/plans/preview/", &[&PREPAYMENT_CANT_DETERMINE_UNITS]),
    ("/api/plans/{plan_id}/versions/", &[&DUPLICATE_RESOURCE]),
    ("/api/plans/{plan_id}/delete/", &[&INVALID_OPERATION]),
    ("/api/plan_versions/{version_id}/delete/", &[&INVALID_OPERATION]),
    ("/api/customers/{customer_id}/delete/", &[&TEST_CLOCK_ADVANCING, &CATCHING_UP]),
    ("/api/customers/{customer_id}/one_off_lines/", &[&TEST_CLOCK_ADVANCING, &CATCHING_UP]),
    ("/api/invoices/{invoice_id}/void/", &[&INVALID_STATE, &TEST_CLOCK_ADVANCING, &CATCHING_UP]),
    ("/api/invoices/{invoice_id}/corrections/preview/", &[&INVALID_STATE]),
    ("/api/invoices/{invoice_id}/payments/", OF_A_PAYMENT),
    ("/api/payments/", OF_A_PAYMENT),
    (
        "/api/invoices/{invoice_id}/payments/{payment_id}/reverse/",
        &[&INVALID_STATE, &TEST_CLOCK_ADVANCING, &CATCHING_UP],
    ),
    ("/api/customers/", &[&DUPLICATE_RESOURCE, &TEST_CLOCK_ADVANCING]),
    ("/api/subscriptions/", OF_A_NEW_SUBSCRIPTION),
    ("/api/subscriptions/add/", OF_A_NEW_SUBSCRIPTION),
    // These two find what runs under the customer's lock, so that nothing of it has ended.
    ("/api/subscriptions/update/", OF_A_NEW_SUBSCRIPTION),
    ("/api/subscriptions/cancel/", &[&TEST_CLOCK_ADVANCING, &CATCHING_UP]),
    (
        "/api/subscriptions/{subscription_id}/update/",
        &[&OVERLAPPING_PLANS, &INVALID_STATE, &TEST_CLOCK_ADVANCING, &CATCHING_UP],
    ),
    ("/api/subscriptions/{subscription_id}/cancel/", OF_A_RUNNING_SUBSCRIPTION),
    ("/api/subscriptions/{subscription_id}/switch_plan/", OF_ANOTHER_PLAN),
    ("/api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/", OF_A_RUNNING_SUBSCRIPTION),
    ("/api/subscriptions/{subscription_id}/addons/attach/", OF_AN_ADDON),
    // Refused as what they show.
    ("/api/subscriptions/preview/", OF_A_NEW_SUBSCRIPTION),
    ("/api/subscriptions/{subscription_id}/cancel/preview/", OF_A_RUNNING_SUBSCRIPTION),
    ("/api/subscriptions/{subscription_id}/switch_plan/preview/", OF_ANOTHER_PLAN),
    (
        "/api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/preview/",
        OF_A_RUNNING_SUBSCRIPTION,
    ),
    ("/api/subscriptions/{subscription_id}/addons/attach/preview/", OF_AN_ADDON),
    ("/api/subscriptions/{subscription_id}/addons/{addon_id}/cancel/preview/", OF_A_RUNNING_SUBSCRIPTION),
    (
        "/api/subscriptions/{subscription_id}/update/preview/",
        &[&OVERLAPPING_PLANS, &INVALID_STATE, &TEST_CLOCK_ADVANCING, &CATCHING_UP],
    ),
    ("/api/subscriptions/{subscription_id}/addons/{addon_id}/cancel/", OF_A_RUNNING_SUBSCRIPTION),
    ("/api/credits/", &[&TEST_CLOCK_ADVANCING, &CATCHING_UP]),
    (
        "/api/credits/{credit_id}/update/",
        &[&CREDIT_EXPIRY_IN_PAST, &CREDIT_NOT_ACTIVE, &TEST_CLOCK_ADVANCING, &CATCHING_UP],
    ),
    ("/api/credits/{credit_id}/void/", &[&TEST_CLOCK_ADVANCING, &CATCHING_UP]),
    ("/api/credit_notes/", &[&INVALID_STATE, &TEST_CLOCK_ADVANCING, &CATCHING_UP]),
    ("/api/credit_notes/{credit_note_id}/void/", &[&INVALID_STATE, &TEST_CLOCK_ADVANCING, &CATCHING_UP]),
    ("/api/test_clocks/{test_clock_id}/advance/", &[&TEST_CLOCK_ADVANCING]),
    ("/api/currencies/", &[&DUPLICATE_RESOURCE]),
    ("/api/webhook_endpoints/{webhook_endpoint_id}/replay/", &[&INVALID_STATE]),
    ("/api/api_keys/{prefix}/regenerate/", &[&INVALID_STATE]),
    ("/api/users/invite/", &[&DUPLICATE_RESOURCE]),
];

/// Codes of the rules that a call carries out.
pub fn of_rules(method: &Method, path: &str) -> &'static [&'static Code] {
    let rules = match *method {
        Method::POST => RULES,
        Method::PATCH => RULES_OF_PATCH,
        Method::DELETE => RULES_OF_DELETE,
        _ => &[],
    };
    let row = rules.iter().find(|(known, _)| *known == path);
    row.map_or(&[], |(_, codes)| codes)
}

/// Every code a call can answer with: of fields, of its rules, and of what it takes.
pub fn of_call(endpoint: &Endpoint) -> Vec<&'static str> {
    let mut codes: Vec<&Code> = EVERYWHERE.to_vec();
    if endpoint.access == Access::Key {
        codes.extend(WITH_KEY);
    }
    if endpoint.needed_scope().is_some() {
        codes.push(&MISSING_SCOPE);
    }
    if endpoint.request.is_some() {
        codes.extend(WITH_BODY);
    } else if endpoint.method != Method::GET {
        codes.extend(WITHOUT_BODY);
    }
    if endpoint.takes_key {
        codes.extend(WITH_IDEMPOTENCY_KEY);
    }
    if endpoint.method != Method::GET {
        codes.push(&CONFLICT_RETRY);
    }
    if endpoint.path_parameters().next().is_some() {
        codes.push(&NOT_FOUND);
    }
    if endpoint.path.contains("subscription") {
        codes.push(&RESOURCE_NOT_FOUND);
    }
    if ["usage", "access", "cost"].iter().any(|word| endpoint.path.contains(word)) {
        codes.push(&CUSTOM_METRIC_FAILED);
    }
    let rules = of_rules(&endpoint.method, endpoint.path);
    codes.extend(rules);
    // What may be behind with billing may have to make an invoice.
    if rules.contains(&&CATCHING_UP) || endpoint.path.ends_with("/draft_invoice/") {
        codes.push(&TAX_RATE_UNAVAILABLE);
    }
    codes.iter().map(|code| code.text).chain(FieldCode::ALL.iter().map(|code| code.as_str())).collect()
}
