//! Which calls of the API a role may make through the console.
//!
//! A page that a role may open asks only for what is here; whatever a mistake in a page may ask for besides is refused. Access tokens
//! and secrets of others are not looked at through the console at all.

use billing_domain::user::Role;
use billing_domain::user::Role::{Developer, Finance, Owner, Support};

use crate::api::Verb;
use crate::api::Verb::{Delete, Get, Patch, Post};

/// Everybody.
pub const ALL: &[Role] = Role::ALL;
/// Who sees to invoices and what is paid of them.
pub const MONEY: &[Role] = &[Owner, Finance];
/// Who sees to what customers hold.
pub const SUBSCRIPTIONS: &[Role] = &[Owner, Finance, Support];
/// Who sees to what things cost.
pub const PRICES: &[Role] = &[Owner, Finance];
/// Who connects other programs.
pub const ENGINEERS: &[Role] = &[Owner, Developer];
/// Who is told when usage or spend goes too far.
pub const ALERTS: &[Role] = &[Owner, Finance, Developer];
/// Who sees to it that billing goes on.
pub const BILLING_RUN: &[Role] = &[Owner, Finance, Developer];
/// Who sees to who may sign in.
pub const OWNERS: &[Role] = &[Owner];

/// Calls, and by whom: `*` is one part of a path, and a path that ends in `**` is all below it.
const CALLS: [(Verb, &str, &[Role]); 72] = [
    (Get, "/api/customers/**", ALL),
    (Get, "/api/invoices/**", ALL),
    (Get, "/api/subscriptions/**", ALL),
    (Get, "/api/credits/**", ALL),
    (Get, "/api/credit_notes/**", ALL),
    (Get, "/api/plans/**", ALL),
    (Get, "/api/plan_versions/*/holders/", ALL),
    (Get, "/api/addons/**", ALL),
    (Get, "/api/metrics/**", ALL),
    (Get, "/api/events/**", ALL),
    (Get, "/api/metric_access/**", ALL),
    (Get, "/api/usage/", ALL),
    (Get, "/api/organization/**", ALL),
    (Get, "/api/overview/**", ALL),
    (Get, "/api/billing_queue/", ALL),
    (Get, "/api/books_audits/**", ALL),
    (Get, "/api/webhook_endpoints/**", ALL),
    (Get, "/api/usage_alerts/**", ALL),
    (Get, "/api/test_clocks/**", ALL),
    (Get, "/api/approvals/**", MONEY),
    (Get, "/api/audit_log/", ALERTS),
    (Get, "/api/api_keys/", OWNERS),
    (Get, "/api/users/", OWNERS),
    (Post, "/api/invoices/*/void/", MONEY),
    (Post, "/api/invoices/*/payments/", MONEY),
    (Post, "/api/invoices/*/corrections/preview/", MONEY),
    (Post, "/api/credit_notes/", MONEY),
    (Post, "/api/credit_notes/*/void/", MONEY),
    (Post, "/api/customers/*/one_off_lines/", MONEY),
    (Delete, "/api/customers/*/one_off_lines/*/", MONEY),
    (Post, "/api/credits/", MONEY),
    (Post, "/api/credits/*/void/", MONEY),
    (Post, "/api/approvals/*/approve/", MONEY),
    (Post, "/api/approvals/*/decline/", MONEY),
    (Delete, "/api/approvals/*/", MONEY),
    (Patch, "/api/organization/", MONEY),
    (Post, "/api/plans/", PRICES),
    (Post, "/api/plans/preview/", PRICES),
    (Post, "/api/plans/*/versions/", PRICES),
    (Post, "/api/subscriptions/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/preview/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/cancel/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/cancel/preview/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/switch_plan/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/switch_plan/preview/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/addons/attach/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/addons/attach/preview/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/addons/*/cancel/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/addons/*/cancel/preview/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/update/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/update/preview/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/components/*/change_prepaid_units/", SUBSCRIPTIONS),
    (Post, "/api/subscriptions/*/components/*/change_prepaid_units/preview/", SUBSCRIPTIONS),
    (Post, "/api/billing_queue/*/retry/", BILLING_RUN),
    (Post, "/api/books_audits/", BILLING_RUN),
    (Post, "/api/metrics/preview/", ALERTS),
    (Post, "/api/usage_alerts/", ALERTS),
    (Delete, "/api/usage_alerts/*/", ALERTS),
    (Post, "/api/test_clocks/", ENGINEERS),
    (Post, "/api/test_clocks/*/advance/", ENGINEERS),
    (Post, "/api/webhook_endpoints/", ENGINEERS),
    (Patch, "/api/webhook_endpoints/*/", ENGINEERS),
    (Delete, "/api/webhook_endpoints/*/", ENGINEERS),
    (Post, "/api/webhook_endpoints/*/test/", ENGINEERS),
    (Post, "/api/webhook_endpoints/*/rotate_secret/", ENGINEERS),
    (Post, "/api/webhook_endpoints/*/replay/", ENGINEERS),
    (Post, "/api/api_keys/", OWNERS),
    (Post, "/api/api_keys/*/regenerate/", OWNERS),
    (Delete, "/api/api_keys/*/", OWNERS),
    (Post, "/api/users/invite/", OWNERS),
    (Patch, "/api/users/*/", OWNERS),
    (Delete, "/api/users/*/", OWNERS),
];

/// Whether a role may make a call. `path` is that of the API, query included.
pub fn allows(role: Role, verb: Verb, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    CALLS.iter().any(|(known, pattern, roles)| *known == verb && matches(pattern, path) && roles.contains(&role))
}

fn matches(pattern: &str, path: &str) -> bool {
    if let Some(beginning) = pattern.strip_suffix("**") {
        return path.starts_with(beginning);
    }
    let (mut wanted, mut parts) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), parts.next()) {
            (None, None) => return true,
            (Some("*"), Some(part)) if !part.is_empty() => {}
            (Some(wanted), Some(part)) if wanted == part => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_make_only_their_calls() {
        use Role::Reader;
        #[rustfmt::skip]
        let cases = [
            // role,     verb,   path,                              may,   why
            (Reader,     Get,    "/api/invoices/x/explain/",        true,  "everybody looks"),
            (Reader,     Get,    "/api/invoices/?limit=9",          true,  "with a query too"),
            (Owner,      Get,    "/api/access_tokens/",             false, "tokens are nobody's to see here"),
            (Owner,      Post,   "/api/api_keys/",                  true,  "whoever may do everything"),
            (Developer,  Post,   "/api/api_keys/",                  false, "a key of theirs could do more than they may"),
            (Developer,  Get,    "/api/api_keys/",                  false, "nor do they see them"),
            (Developer,  Post,   "/api/webhook_endpoints/x/test/",  true,  "they connect other programs"),
            (Finance,    Delete, "/api/webhook_endpoints/x/",       false, "finance does not"),
            (Owner,      Get,    "/metrics",                        false, "nor what the service counts"),
            (Finance,    Post,   "/api/invoices/x/void/",           true,  "finance voids"),
            (Support,    Post,   "/api/invoices/x/void/",           false, "support does not"),
            (Developer,  Post,   "/api/invoices/x/payments/",       false, "money is not theirs"),
            (Support,    Post,   "/api/subscriptions/x/cancel/",    true,  "support cancels"),
            (Reader,     Post,   "/api/subscriptions/x/cancel/",    false, "readers change nothing"),
            (Developer,  Post,   "/api/subscriptions/preview/",     false, "who may not do it does not try it out"),
            (Owner,      Post,   "/api/organization/",              false, "there is no such call"),
            (Owner,      Patch,  "/api/organization/",              true,  "there is this one"),
            (Owner,      Post,   "/api/invoices/x/y/void/",         false, "another depth is another call"),
            (Owner,      Post,   "/api/invoices//void/",            false, "nothing is no id"),
            (Finance,    Post,   "/api/plans/",                     true,  "prices are money"),
            (Developer,  Post,   "/api/plans/x/versions/",          false, "which is not theirs"),
            (Support,    Post,   "/api/plans/preview/",             false, "nor tried out"),
            (Owner,      Post,   "/api/plans/x/delete/",            false, "there is no page for it"),
            (Support,    Get,    "/api/audit_log/?kind=plan",       false, "it tells of what they may not do"),
            (Developer,  Get,    "/api/audit_log/?kind=plan",       true,  "they read it"),
            (Finance,    Post,   "/api/approvals/x/approve/",       true,  "finance decides too"),
            (Support,    Post,   "/api/approvals/x/approve/",       false, "money is not theirs"),
            (Reader,     Get,    "/api/approvals/",                 false, "nor what waits with it"),
            (Finance,    Get,    "/api/users/",                     false, "who is there is for owners"),
            (Owner,      Get,    "/api/users/x/sessions/",          false, "there is no page for it"),
            (Reader,     Get,    "/api/books_audits/x/",            true,  "whether the books are right is nobody's secret"),
            (Support,    Post,   "/api/books_audits/",              false, "having it looked at takes the database's time"),
            (Developer,  Delete, "/api/usage_alerts/x/",            true,  "an alert of theirs"),
            (Developer,  Delete, "/api/usage_alerts/",              false, "one at a time"),
        ];
        for (role, verb, path, may, why) in cases {
            assert_eq!(allows(role, verb, path), may, "{role} {verb:?} {path}: {why}");
        }
    }
}
