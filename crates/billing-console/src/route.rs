//! Every page and action, in one table.

use std::future::Future;
use std::pin::Pin;

use billing_domain::user::Role;
use maud::Markup;

use crate::api::Failure;
use crate::page;
use crate::permission::{ALERTS, ALL, BILLING_RUN, ENGINEERS, MONEY, OWNERS, PRICES, SUBSCRIPTIONS};
use crate::visit::Visit;

/// How a page is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// To look.
    Get,
    /// To do something.
    Post,
}

/// What came of a request.
pub enum Outcome {
    /// A page: its title, and what is inside its surroundings.
    Page(String, Markup),
    /// A table to keep: the name of its file, and its text.
    Csv(String, String),
    /// Done, or found: look there.
    Go(String),
}

/// An outcome to come.
pub type Rendering<'v> = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + 'v>>;

/// One page or action.
#[derive(Clone, Copy)]
pub struct Route {
    /// How it is asked for.
    pub method: Method,
    /// Its path with at most one name in braces.
    pub path: &'static str,
    /// Who may.
    pub roles: &'static [Role],
    /// What renders or does it.
    pub render: for<'v> fn(&'v Visit<'v>) -> Rendering<'v>,
}

macro_rules! route {
    ($method:ident $path:literal $roles:expr, $render:path) => {
        Route { method: Method::$method, path: $path, roles: $roles, render: |visit| Box::pin($render(visit)) }
    };
}

/// The table, in the order in which people use it.
pub const fn table() -> &'static [Route] {
    TABLE
}

const TABLE: &[Route] = &[
    route!(Get "/console/" ALL, page::home::show),
    route!(Get "/console/search/" ALL, page::search::show),
    route!(Get "/console/events/" ALL, page::live_events::show),
    route!(Get "/console/customers/" ALL, page::customers::show),
    route!(Get "/console/customers/{customer_id}/" ALL, page::customer::show),
    route!(Get "/console/customers/{customer_id}/events/" ALL, page::events::show),
    route!(Get "/console/customers/{customer_id}/event/" ALL, page::event::show),
    route!(Get "/console/customers/{customer_id}/usage/" ALL, page::usage::show),
    route!(Get "/console/customers/{customer_id}/statement/" ALL, page::statement::show),
    route!(Get "/console/customers/{customer_id}/credit/" MONEY, page::credit_customer::ask),
    route!(Post "/console/customers/{customer_id}/credit/" MONEY, page::credit_customer::act),
    route!(Get "/console/customers/{customer_id}/one_off_lines/" MONEY, page::one_off_lines::ask),
    route!(Post "/console/customers/{customer_id}/one_off_lines/" MONEY, page::one_off_lines::act),
    route!(Get "/console/customers/{customer_id}/one_off_lines/remove/" MONEY, page::one_off_lines::confirm),
    route!(Post "/console/customers/{customer_id}/one_off_lines/remove/" MONEY, page::one_off_lines::remove),
    route!(Get "/console/customers/{customer_id}/credits/" ALL, page::credits::show),
    route!(Get "/console/customers/{customer_id}/timeline/" ALL, page::timeline::show),
    route!(Get "/console/credits/{credit_id}/" ALL, page::credit::show),
    route!(Get "/console/credits/{credit_id}/void/" MONEY, page::void_credit::confirm),
    route!(Post "/console/credits/{credit_id}/void/" MONEY, page::void_credit::act),
    route!(Get "/console/invoices/" ALL, page::invoices::show),
    route!(Get "/console/invoices/{invoice_id}/" ALL, page::invoice::show),
    route!(Get "/console/invoices/{invoice_id}/void/" MONEY, page::void_invoice::confirm),
    route!(Post "/console/invoices/{invoice_id}/void/" MONEY, page::void_invoice::act),
    route!(Get "/console/invoices/{invoice_id}/payments/" MONEY, page::note_payment::ask),
    route!(Post "/console/invoices/{invoice_id}/payments/" MONEY, page::note_payment::act),
    route!(Get "/console/invoices/{invoice_id}/credit_notes/" MONEY, page::credit_note::ask),
    route!(Post "/console/invoices/{invoice_id}/credit_notes/" MONEY, page::credit_note::act),
    route!(Get "/console/invoices/{invoice_id}/corrections/" MONEY, page::corrections::ask),
    route!(Post "/console/invoices/{invoice_id}/corrections/" MONEY, page::corrections::act),
    route!(Get "/console/credit_notes/" ALL, page::credit_notes::show),
    route!(Get "/console/credit_notes/{credit_note_id}/void/" MONEY, page::void_credit_note::confirm),
    route!(Post "/console/credit_notes/{credit_note_id}/void/" MONEY, page::void_credit_note::act),
    route!(Get "/console/approvals/" MONEY, page::approvals::show),
    route!(Get "/console/approvals/{approval_id}/" MONEY, page::approval::show),
    route!(Post "/console/approvals/{approval_id}/" MONEY, page::approval::approve),
    route!(Get "/console/approvals/{approval_id}/decline/" MONEY, page::approval::ask_decline),
    route!(Post "/console/approvals/{approval_id}/decline/" MONEY, page::approval::decline),
    route!(Get "/console/approvals/{approval_id}/withdraw/" MONEY, page::approval::ask_withdrawal),
    route!(Post "/console/approvals/{approval_id}/withdraw/" MONEY, page::approval::withdraw),
    route!(Get "/console/customers/{customer_id}/subscribe/" SUBSCRIPTIONS, page::new_subscription::ask),
    route!(Post "/console/customers/{customer_id}/subscribe/" SUBSCRIPTIONS, page::new_subscription::act),
    route!(Get "/console/subscriptions/{subscription_id}/switch_plan/" SUBSCRIPTIONS, page::switch_plan::ask),
    route!(Post "/console/subscriptions/{subscription_id}/switch_plan/" SUBSCRIPTIONS, page::switch_plan::act),
    route!(Get "/console/subscriptions/{subscription_id}/addons/" SUBSCRIPTIONS, page::attach_addon::ask),
    route!(Post "/console/subscriptions/{subscription_id}/addons/" SUBSCRIPTIONS, page::attach_addon::act),
    route!(Get "/console/subscriptions/{subscription_id}/addons/cancel/" SUBSCRIPTIONS, page::cancel_addon::ask),
    route!(Post "/console/subscriptions/{subscription_id}/addons/cancel/" SUBSCRIPTIONS, page::cancel_addon::act),
    route!(Get "/console/subscriptions/{subscription_id}/update/" SUBSCRIPTIONS, page::update_subscription::ask),
    route!(Post "/console/subscriptions/{subscription_id}/update/" SUBSCRIPTIONS, page::update_subscription::act),
    route!(Get "/console/subscriptions/{subscription_id}/prepaid_units/" SUBSCRIPTIONS, page::prepaid_units::ask),
    route!(Post "/console/subscriptions/{subscription_id}/prepaid_units/" SUBSCRIPTIONS, page::prepaid_units::act),
    route!(Get "/console/subscriptions/{subscription_id}/cancel/" SUBSCRIPTIONS, page::cancel_subscription::ask),
    route!(Post "/console/subscriptions/{subscription_id}/cancel/" SUBSCRIPTIONS, page::cancel_subscription::act),
    route!(Get "/console/billing_run/" ALL, page::billing_run::show),
    route!(Get "/console/billing_run/{customer_id}/retry/" BILLING_RUN, page::billing_run::confirm),
    route!(Post "/console/billing_run/{customer_id}/retry/" BILLING_RUN, page::billing_run::act),
    route!(Get "/console/books/" ALL, page::books_audits::show),
    route!(Get "/console/books/run/" BILLING_RUN, page::books_audits::confirm),
    route!(Post "/console/books/run/" BILLING_RUN, page::books_audits::act),
    route!(Get "/console/books/{books_audit_id}/" ALL, page::books_audits::one),
    route!(Get "/console/plans/" ALL, page::plans::show),
    route!(Get "/console/plans/new/" PRICES, page::plan_builder::ask),
    route!(Post "/console/plans/new/" PRICES, page::plan_builder::act),
    route!(Get "/console/plans/{plan_id}/" ALL, page::plan::show),
    route!(Get "/console/plans/{plan_id}/new_version/" PRICES, page::plan_builder::ask_version),
    route!(Post "/console/plans/{plan_id}/new_version/" PRICES, page::plan_builder::act_version),
    route!(Get "/console/plans/{plan_id}/version/" ALL, page::plan_version::show),
    route!(Get "/console/plans/{plan_id}/holders/" ALL, page::holders::show),
    route!(Get "/console/plans/{plan_id}/compare/" ALL, page::compare_versions::show),
    route!(Get "/console/metrics/" ALL, page::metrics::show),
    route!(Get "/console/metrics/try/" ALERTS, page::try_metric::ask),
    route!(Post "/console/metrics/try/" ALERTS, page::try_metric::act),
    route!(Get "/console/metrics/{metric_id}/" ALL, page::metric::show),
    route!(Get "/console/alerts/" ALL, page::alerts::show),
    route!(Get "/console/alerts/new/" ALERTS, page::new_alert::ask),
    route!(Post "/console/alerts/new/" ALERTS, page::new_alert::act),
    route!(Get "/console/alerts/{usage_alert_id}/delete/" ALERTS, page::delete_alert::confirm),
    route!(Post "/console/alerts/{usage_alert_id}/delete/" ALERTS, page::delete_alert::act),
    route!(Get "/console/webhooks/" ALL, page::webhooks::show),
    route!(Get "/console/webhooks/new/" ENGINEERS, page::new_webhook::ask),
    route!(Post "/console/webhooks/new/" ENGINEERS, page::new_webhook::act),
    route!(Get "/console/webhooks/{webhook_endpoint_id}/" ALL, page::webhook::show),
    route!(Get "/console/webhooks/{webhook_endpoint_id}/replay/" ENGINEERS, page::webhook::ask_replay),
    route!(Post "/console/webhooks/{webhook_endpoint_id}/replay/" ENGINEERS, page::webhook::replay),
    route!(Get "/console/webhooks/{webhook_endpoint_id}/test/" ENGINEERS, page::webhook_actions::ask_test),
    route!(Post "/console/webhooks/{webhook_endpoint_id}/test/" ENGINEERS, page::webhook_actions::test),
    route!(Get "/console/webhooks/{webhook_endpoint_id}/rotate_secret/" ENGINEERS, page::webhook_actions::ask_secret),
    route!(Post "/console/webhooks/{webhook_endpoint_id}/rotate_secret/" ENGINEERS, page::webhook_actions::rotate_secret),
    route!(Get "/console/webhooks/{webhook_endpoint_id}/disable/" ENGINEERS, page::webhook_actions::ask_disable),
    route!(Post "/console/webhooks/{webhook_endpoint_id}/disable/" ENGINEERS, page::webhook_actions::disable),
    route!(Get "/console/webhooks/{webhook_endpoint_id}/enable/" ENGINEERS, page::webhook_actions::ask_enable),
    route!(Post "/console/webhooks/{webhook_endpoint_id}/enable/" ENGINEERS, page::webhook_actions::enable),
    route!(Get "/console/webhooks/{webhook_endpoint_id}/delete/" ENGINEERS, page::webhook_actions::ask_delete),
    route!(Post "/console/webhooks/{webhook_endpoint_id}/delete/" ENGINEERS, page::webhook_actions::delete),
    route!(Get "/console/test_clocks/" ENGINEERS, page::test_clocks::show),
    route!(Get "/console/test_clocks/new/" ENGINEERS, page::new_test_clock::ask),
    route!(Post "/console/test_clocks/new/" ENGINEERS, page::new_test_clock::act),
    route!(Get "/console/test_clocks/{test_clock_id}/" ENGINEERS, page::test_clock::show),
    route!(Post "/console/test_clocks/{test_clock_id}/" ENGINEERS, page::test_clock::act),
    route!(Get "/console/audit_log/" ALERTS, page::audit_log::show),
    route!(Get "/console/api_keys/" OWNERS, page::api_keys::show),
    route!(Get "/console/api_keys/new/" OWNERS, page::new_api_key::ask),
    route!(Post "/console/api_keys/new/" OWNERS, page::new_api_key::act),
    route!(Get "/console/api_keys/{prefix}/regenerate/" OWNERS, page::api_key::confirm_new),
    route!(Post "/console/api_keys/{prefix}/regenerate/" OWNERS, page::api_key::regenerate),
    route!(Get "/console/api_keys/{prefix}/delete/" OWNERS, page::api_key::confirm_delete),
    route!(Post "/console/api_keys/{prefix}/delete/" OWNERS, page::api_key::delete),
    route!(Get "/console/users/" OWNERS, page::users::show),
    route!(Get "/console/users/invite/" OWNERS, page::invite_user::ask),
    route!(Post "/console/users/invite/" OWNERS, page::invite_user::act),
    route!(Get "/console/users/{user_id}/role/" OWNERS, page::invite_user::ask_role),
    route!(Post "/console/users/{user_id}/role/" OWNERS, page::invite_user::change_role),
    route!(Get "/console/users/{user_id}/remove/" OWNERS, page::remove_user::confirm),
    route!(Post "/console/users/{user_id}/remove/" OWNERS, page::remove_user::act),
    route!(Get "/console/settings/" MONEY, page::settings::show),
    route!(Post "/console/settings/" MONEY, page::settings::act),
    route!(Get "/console/settings/approval_limit/" OWNERS, page::approval_limit::ask),
    route!(Post "/console/settings/approval_limit/" OWNERS, page::approval_limit::act),
];

/// Whether a role may open a page, by the path that the table has for it.
pub fn is_open_to(role: Role, method: Method, path: &str) -> bool {
    table().iter().any(|route| route.method == method && route.path == path && route.roles.contains(&role))
}

#[cfg(test)]
mod tests {
    use billing_domain::user::Role::Owner;

    use super::*;

    #[test]
    fn rows_are_one_of_a_kind_and_end_in_a_slash() {
        let mut seen = Vec::new();
        for route in table() {
            let (method, path) = (route.method, route.path);
            assert!(path.starts_with("/console/") && path.ends_with('/'), "{path}");
            assert!(path.matches('{').count() <= 1, "{path}: one name at most");
            assert!(!seen.contains(&(method as u8, path)), "{path} is there twice");
            assert!(route.roles.contains(&Owner), "{path}: the owner may everything");
            seen.push((method as u8, path));
        }
    }

    #[test]
    fn who_may_act_may_open_its_form() {
        for action in table().iter().filter(|route| route.method == Method::Post) {
            for role in Role::ALL {
                let may = action.roles.contains(role);
                assert_eq!(is_open_to(*role, Method::Get, action.path), may, "{}: {role}", action.path);
            }
        }
    }
}
