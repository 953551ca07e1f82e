//! The pages, one file each: what it asks the API for, and how that looks.

pub mod alerts;
pub mod api_key;
pub mod api_keys;
pub mod approval;
pub mod approval_limit;
pub mod approvals;
pub mod attach_addon;
pub mod audit_log;
pub mod billing_run;
pub mod books_audits;
pub mod cancel_addon;
pub mod cancel_subscription;
pub(crate) mod change;
mod chart;
pub mod compare_versions;
pub mod corrections;
pub mod credit;
pub mod credit_customer;
pub mod credit_note;
pub mod credit_notes;
pub mod credits;
pub mod customer;
pub mod customers;
pub mod delete_alert;
pub mod event;
pub mod events;
mod export;
pub mod holders;
pub mod home;
pub mod invite_user;
pub mod invoice;
pub mod invoice_line;
pub mod invoices;
pub mod live_events;
pub mod metric;
pub mod metrics;
pub mod new_alert;
pub mod new_api_key;
pub mod new_subscription;
pub mod new_test_clock;
pub mod new_webhook;
pub mod note_payment;
pub mod one_off_lines;
pub mod openid;
pub mod organizations;
pub mod plan;
pub mod plan_builder;
mod plan_fieldset;
mod plan_form;
pub mod plan_version;
pub mod plans;
pub mod prepaid_units;
mod price_curve;
mod price_trial;
mod recent_events;
pub mod remove_user;
pub mod search;
pub mod settings;
pub mod sign_in;
pub mod statement;
pub mod switch_plan;
pub mod test_clock;
pub mod test_clocks;
pub mod time_zone;
pub mod timeline;
pub mod try_metric;
pub mod update_subscription;
pub mod usage;
pub mod users;
pub mod void_credit;
pub mod void_credit_note;
pub mod void_invoice;
pub mod webhook;
pub mod webhook_actions;
pub mod webhooks;

use maud::{Markup, html};
use serde_json::Value;

use crate::show;
use crate::text;
use crate::visit::{Visit, escaped};

/// Rows of a list on one page. As many customers are read at once by the API, and no more than a hundred.
const ROWS: u32 = 50;

/// The query of one page of a list.
fn paged(path: &str, visit: &Visit<'_>) -> String {
    let joint = if path.contains('?') { '&' } else { '?' };
    let cursor = visit.query.get("cursor").map(|cursor| format!("&cursor={}", escaped(cursor)));
    format!("{path}{joint}limit={ROWS}{}", cursor.unwrap_or_default())
}

/// Whether a list is shown from its beginning.
fn is_first(visit: &Visit<'_>) -> bool {
    visit.query.get("cursor").is_none()
}

/// Where a customer is shown.
fn customer_path(id: &str) -> String {
    format!("/console/customers/{}/", escaped(id))
}

/// Where an invoice is shown.
fn invoice_path(invoice: &Value) -> String {
    format!("/console/invoices/{}/", escaped(&show::plain(&invoice["invoice_id"])))
}

/// The status of an invoice, by what it asks of people.
fn invoice_badge(invoice: &Value) -> Markup {
    show::badge(invoice["payment_status"].as_str().unwrap_or_default())
}

/// Invoices in a table, with their customers where the list is of several.
fn invoice_table(invoices: &[Value], of_several: bool) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::NUMBER) }
                @if of_several { th { (text::CUSTOMER) } }
                th { (text::ISSUED) }
                th { (text::STATUS) }
                th.right { (text::TOTAL) }
                th.right { (text::AMOUNT_DUE) }
            } }
            tbody {
                @for invoice in invoices {
                    tr {
                        td.number { a href=(invoice_path(invoice)) { (show::plain(&invoice["invoice_number"])) } }
                        @if of_several {
                            td.long { a href=(customer_path(&show::plain(&invoice["customer"]["customer_id"]))) {
                                (show::name(&invoice["customer"]))
                            } }
                        }
                        td { (show::day(&invoice["issue_date"])) }
                        td { (invoice_badge(invoice)) }
                        td.right { (show::amount(&invoice["amount"], &invoice["currency"])) }
                        td.right { (show::amount(&invoice["amount_due"], &invoice["currency"])) }
                    }
                }
            }
        } }
    }
}
