//! Which calls ignore what they do not know.

use actix_web::http::Method;

/// What a call makes of fields and parameters that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// They are refused: a field that is misspelt would decide something by being missing.
    Refused,
    /// They are ignored, and the answer names them: existing clients send some that mean nothing.
    Ignored,
}

/// The calls that clients of the system make from which the interface comes.
const INTERFACE: &[(Method, &str)] = &[
    (Method::GET, "/api/ping/"),
    (Method::POST, "/api/track/"),
    (Method::POST, "/api/verify_idems_received/"),
    (Method::GET, "/api/metric_access/"),
    (Method::GET, "/api/feature_access/"),
    (Method::GET, "/api/customer_metric_access/"),
    (Method::GET, "/api/customer_feature_access/"),
    (Method::GET, "/api/plans/"),
    (Method::GET, "/api/plans/{plan_id}/"),
    (Method::GET, "/api/customers/"),
    (Method::POST, "/api/customers/"),
    (Method::GET, "/api/customers/{customer_id}/"),
    (Method::GET, "/api/subscriptions/"),
    (Method::POST, "/api/subscriptions/"),
    (Method::POST, "/api/subscriptions/add/"),
    (Method::POST, "/api/subscriptions/cancel/"),
    (Method::POST, "/api/subscriptions/update/"),
    (Method::POST, "/api/subscriptions/{subscription_id}/update/"),
    (Method::POST, "/api/subscriptions/{subscription_id}/cancel/"),
    (Method::POST, "/api/subscriptions/{subscription_id}/switch_plan/"),
    (Method::POST, "/api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/"),
    (Method::POST, "/api/subscriptions/{subscription_id}/addons/attach/"),
    (Method::POST, "/api/subscriptions/{subscription_id}/addons/{addon_id}/cancel/"),
    (Method::GET, "/api/invoices/"),
    (Method::GET, "/api/credits/"),
    (Method::POST, "/api/credits/"),
    (Method::POST, "/api/credits/{credit_id}/update/"),
    (Method::POST, "/api/credits/{credit_id}/void/"),
];

impl UnknownFields {
    /// Of a call. What anybody may ask for, probes and pages, ignores them as well.
    pub fn of_call(method: &Method, path: &str, is_public: bool) -> Self {
        let is_of_interface = INTERFACE.iter().any(|(known, call)| known == method && *call == path);
        if is_of_interface || is_public { Self::Ignored } else { Self::Refused }
    }

    /// What a client is told about a call.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Refused => "Fields and parameters that are not described are refused.",
            Self::Ignored => {
                "Fields and parameters that are not described are ignored, and named in the header `Ignored-Fields` of \
                 the answer; with `Prefer: handling=strict` they are refused."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes;

    #[test]
    fn every_call_of_the_interface_is_in_the_table() {
        let table = routes::table();
        for (method, path) in INTERFACE {
            assert!(table.iter().any(|call| call.method == *method && call.path == *path), "{method} {path}");
        }
    }
}
