//! What calls are named in generated clients: `list_plans`, `create_plan`, `void_credit`.

use actix_web::http::Method;

/// The names that do not follow from method and path.
#[rustfmt::skip]
const OTHERS: &[(&str, &str, &str)] = &[
    ("GET",  "/",                                       "get_start_page"),
    ("GET",  "/api/ping/",                              "ping"),
    ("POST", "/api/track/",                             "track_events"),
    ("POST", "/api/events/",                            "ingest_events"),
    ("POST", "/api/verify_idems_received/",             "verify_idems_received"),
    ("POST", "/api/billing_queue/{customer_id}/retry/",   "retry_customer_billing"),
    ("POST", "/api/users/invite/",                      "invite_user"),
    ("GET",  "/api/users/{user_id}/sessions/",          "list_user_sessions"),
    ("GET",  "/api/audit_log/",                         "list_audit_entries"),
    ("GET",  "/api/invoices/{invoice_id}/explain/",     "explain_invoice"),
    ("POST", "/api/invoices/{invoice_id}/payments/",    "create_invoice_payment"),
    ("POST", "/api/customers/{customer_id}/one_off_lines/", "create_one_off_line"),
    ("GET",  "/api/customers/{customer_id}/messages/",  "list_customer_messages"),
    ("POST", "/api/plans/{plan_id}/versions/",          "create_plan_version"),
    ("GET",  "/api/plan_versions/{version_id}/holders/", "list_plan_version_holders"),
    ("POST", "/api/plans/preview/",                     "preview_plan"),
    ("POST", "/api/metrics/preview/",                   "preview_metric"),
    ("POST", "/api/subscriptions/add/",                 "add_subscription"),
    ("POST", "/api/subscriptions/{subscription_id}/switch_plan/", "switch_plan"),
    ("POST", "/api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/", "change_prepaid_units"),
    ("POST", "/api/subscriptions/{subscription_id}/switch_plan/preview/", "preview_plan_switch"),
    ("POST", "/api/subscriptions/{subscription_id}/cancel/preview/", "preview_cancellation"),
    ("POST", "/api/subscriptions/{subscription_id}/addons/attach/preview/", "preview_addon"),
    ("POST", "/api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/preview/", "preview_prepaid_units"),
    ("POST", "/api/subscriptions/{subscription_id}/addons/{addon_id}/cancel/preview/", "preview_addon_cancellation"),
    ("POST", "/api/subscriptions/{subscription_id}/update/preview/", "preview_subscription_update"),
    ("POST", "/api/subscriptions/preview/", "preview_subscription"),
    ("POST", "/api/webhook_endpoints/{webhook_endpoint_id}/rotate_secret/", "rotate_webhook_endpoint_secret"),
    ("GET", "/api/webhook_endpoints/{webhook_endpoint_id}/deliveries/", "list_webhook_endpoint_deliveries"),
];

/// A verb and a noun: stable, unique, and a function's name in any language.
///
/// A list of a collection is `list_plans`, one of it `get_plan`, `update_plan`, `delete_api_key`; what is posted to a collection
/// makes one (`create_plan`), a word behind an id is what is done with it (`void_credit`), and what belongs to one is
/// got by both names (`get_customer_draft_invoice`).
pub fn of(method: &Method, path: &str, is_paged: bool) -> String {
    if let Some((.., name)) =
        OTHERS.iter().find(|(other, other_path, _)| method.as_str() == *other && path == *other_path)
    {
        return (*name).to_owned();
    }
    let is_word = |part: &&str| !part.is_empty() && *part != "api";
    let parts: Vec<&str> = path.split(['/', '.']).filter(is_word).collect();
    let named = |part: &&str| part.starts_with('{');
    let (last, before) = parts.split_last().map_or(("", &[][..]), |(last, before)| (*last, before));
    let noun = before.iter().rfind(|part| !named(part)).copied().unwrap_or_default();
    let is_of_one = before.last().is_some_and(named);
    match *method {
        Method::GET if named(&last) => format!("get_{}", singular(noun)),
        Method::GET if is_paged => format!("list_{last}"),
        Method::GET if is_of_one => format!("get_{}_{last}", singular(noun)),
        Method::GET => {
            let words: Vec<&str> = parts.iter().copied().filter(|part| !named(part)).collect();
            format!("get_{}", words.join("_"))
        }
        Method::PATCH if named(&last) => format!("update_{}", singular(noun)),
        Method::PATCH => format!("update_{last}"),
        Method::DELETE => format!("delete_{}", singular(noun)),
        _ if before.is_empty() => format!("create_{}", singular(last)),
        // Behind a collection, a word is about several of it; behind one of it, or what belongs to one, about that.
        _ if parts.iter().any(named) => format!("{last}_{}", singular(noun)),
        _ => format!("{last}_{noun}"),
    }
}

/// One of what this names several of.
pub fn singular(noun: &str) -> String {
    match noun.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => noun.strip_suffix('s').unwrap_or(noun).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::endpoint::Endpoint;
    use crate::routes;

    #[test]
    fn calls_are_named_by_verb_and_noun() {
        #[rustfmt::skip]
        let cases = [
            // call,                                                     name,                          why
            ("GET /api/plans/",                                          "list_plans",                  "a collection"),
            ("GET /api/plans/{plan_id}/",                                "get_plan",                    "one of it"),
            ("POST /api/currencies/",                                    "create_currency",             "another plural"),
            ("PATCH /api/organization/",                                 "update_organization",         "there is one"),
            ("DELETE /api/api_keys/{prefix}/",                           "delete_api_key",              "one of a collection"),
            ("POST /api/credits/{credit_id}/void/",                      "void_credit",                 "done with one"),
            ("POST /api/subscriptions/cancel/",                          "cancel_subscriptions",        "done with several"),
            ("POST /api/subscriptions/{subscription_id}/cancel/",        "cancel_subscription",         "done with one"),
            ("POST /api/subscriptions/{subscription_id}/addons/attach/", "attach_addon",                "done with what belongs to one"),
            ("GET /api/customers/{customer_id}/draft_invoice/",          "get_customer_draft_invoice",  "belongs to one"),
            ("GET /api/metric_access/",                                  "get_metric_access",           "no plural"),
            ("GET /openapi.json",                                        "get_openapi_json",            "a file"),
        ];
        let table = routes::table();
        let call = |endpoint: &Endpoint| format!("{} {}", endpoint.method, endpoint.path);
        let names: BTreeMap<String, String> =
            table.iter().map(|endpoint| (call(endpoint), endpoint.operation_id())).collect();
        for (call, name, why) in cases {
            assert_eq!(names.get(call).map(String::as_str), Some(name), "{call}: {why}");
        }
        assert_eq!(names.values().collect::<BTreeSet<_>>().len(), table.len(), "each has its own: {names:#?}");
        let calls_of_others = OTHERS.iter().map(|(method, path, _)| format!("{method} {path}"));
        assert!(
            calls_of_others.into_iter().all(|call| names.contains_key(&call)),
            "the table names calls that are there"
        );
    }
}
