//! Which calls of the API a role may make through the console.
//!
//! A page that a role may open asks only for what is here; whatever a mistake in a page may ask for besides is refused. API keys,
//! access tokens and secrets are not looked at through the console at all.

use billing_domain::user::Role;
use billing_domain::user::Role::{Finance, Owner, Support};

use crate::route::Method;

/// What may be looked at by everybody: the beginning of the path.
const SHOWN: [&str; 12] = [
    "/api/customers/",
    "/api/invoices/",
    "/api/subscriptions/",
    "/api/credits/",
    "/api/credit_notes/",
    "/api/plans/",
    "/api/metrics/",
    "/api/events/",
    "/api/metric_access/",
    "/api/organization/",
    "/api/overview/",
    "/api/webhook_endpoints/",
];

/// What may be done: the noun, the verb behind its id, and by whom.
const DONE: [(&str, &str, &[Role]); 3] = [
    ("invoices", "void", &[Owner, Finance]),
    ("invoices", "payments", &[Owner, Finance]),
    ("subscriptions", "cancel", &[Owner, Finance, Support]),
];

/// Whether a role may make a call. `path` is that of the API, query included.
pub fn allows(role: Role, method: Method, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    match method {
        Method::Get => SHOWN.iter().any(|shown| path.starts_with(shown)),
        Method::Post => {
            let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
            let ["api", noun, _, verb] = parts[..] else { return false };
            DONE.iter().any(|(known, done, roles)| *known == noun && *done == verb && roles.contains(&role))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_make_only_their_calls() {
        use Method::{Get, Post};
        use Role::{Developer, Reader};
        #[rustfmt::skip]
        let cases = [
            // role,     method, path,                              may,   why
            (Reader,     Get,    "/api/invoices/x/explain/",        true,  "everybody looks"),
            (Reader,     Get,    "/api/invoices/?limit=9",          true,  "with a query too"),
            (Owner,      Get,    "/api/api_keys/",                  false, "keys are nobody's to see here"),
            (Owner,      Get,    "/metrics",                        false, "nor what the service counts"),
            (Finance,    Post,   "/api/invoices/x/void/",           true,  "finance voids"),
            (Support,    Post,   "/api/invoices/x/void/",           false, "support does not"),
            (Developer,  Post,   "/api/invoices/x/payments/",       false, "money is not theirs"),
            (Support,    Post,   "/api/subscriptions/x/cancel/",    true,  "support cancels"),
            (Reader,     Post,   "/api/subscriptions/x/cancel/",    false, "readers change nothing"),
            (Owner,      Post,   "/api/organization/",              false, "there is no page for it"),
            (Owner,      Post,   "/api/invoices/x/y/void/",         false, "another depth is another call"),
        ];
        for (role, method, path, may, why) in cases {
            assert_eq!(allows(role, method, path), may, "{role} {method:?} {path}: {why}");
        }
    }
}
