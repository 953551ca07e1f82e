//! The billing run: how far it is, whose billing is due or failed, and having that tried again.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::customer_path;
use crate::api::Failure;
use crate::form::Form;
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

const HERE: &str = "/console/billing_run/";
const RETRY: &str = "/console/billing_run/{customer_id}/retry/";

/// `GET /console/billing_run/`
///
/// # Errors
/// Those of the calls.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let overview = visit.get("/api/overview/").await?;
    let queue = visit.get("/api/billing_queue/").await?;
    let customers = show::items(&queue["customers"]);
    let seconds = overview["billing_lag_seconds"].as_u64().unwrap_or_default();
    let is_alarm = !show::is_zero(&overview["customers_parked"]);
    let content = html! {
        h1 { (text::BILLING_RUN) }
        div.cards.small {
            div.card { h2 { (text::BILLING_LAG) } p.figure {
                @if seconds == 0 { (text::BILLING_UP_TO_DATE) } @else { (show::length(&json!(seconds.saturating_mul(1_000_000)))) }
            } }
            div.card { h2 { (text::CUSTOMERS_DUE) } p.figure { (show::number(&overview["customers_due"])) } }
            div.card.alarm[is_alarm] {
                h2 { (text::CUSTOMERS_PARKED) } p.figure { (show::number(&overview["customers_parked"])) }
                @if is_alarm { p.quiet { (text::PARKED_HINT) } }
            }
        }
        section {
            h2 { (text::BILLING_QUEUE) }
            @if customers.is_empty() { p.empty { (text::NOTHING_DUE) } } @else {
                (table(customers, is_open_to(visit.viewer.role, Method::Get, RETRY), &visit.viewer.zone))
                p.hint { (text::QUEUE_HINT) }
            }
        }
    };
    Ok(Outcome::Page(text::BILLING_RUN.to_owned(), content))
}

fn table(customers: &[Value], may_retry: bool, zone: &ViewerZone) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::CUSTOMER) } th { (text::DUE_SINCE) } th { (text::STATUS) } th.right { (text::FAILURES) } th { (text::REASON) }
                @if may_retry { th { span.hidden { (text::RETRY) } } }
            } }
            tbody { @for one in customers {
                @let id = show::plain(&one["customer_id"]);
                @let has_failed = !show::is_zero(&one["failures"]);
                tr {
                    td.long { a href=(customer_path(&id)) { (id) } }
                    td { (show::instant(&one["due_at"], zone)) }
                    td { (show::badge(if one["is_parked"] == true { "parked" } else if has_failed { "failed" } else { "due" })) }
                    td.right { (show::number(&one["failures"])) }
                    td.long { (show::plain(&one["failure"])) }
                    @if may_retry { td.right {
                        @if has_failed { a href={ (HERE) (escaped(&id)) "/retry/" } { (text::RETRY) } }
                    } }
                }
            } }
        } }
    }
}

/// `GET /console/billing_run/{customer_id}/retry/`
///
/// # Errors
/// When there is no such customer.
pub async fn confirm<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let customer = visit.get(format!("/api/customers/{}/", escaped(&visit.id))).await?;
    let form = Form { fields: &[], button: text::RETRY, is_danger: false, back: (HERE, text::BACK) };
    let content = html! {
        nav.path { a href=(HERE) { (text::BILLING_RUN) } }
        h1 { (text::RETRY_BILLING) }
        dl.facts { div { dt { (text::CUSTOMER) } dd.long {
            a href=(customer_path(&visit.id)) { (show::name(&customer)) }
        } } }
        p { (text::RETRY_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::RETRY_BILLING.to_owned(), content))
}

/// `POST /console/billing_run/{customer_id}/retry/`
///
/// # Errors
/// When there is no such customer.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    visit.post(format!("/api/billing_queue/{}/retry/", escaped(&visit.id)), Value::Null).await?;
    Ok(Outcome::Go(HERE.to_owned()))
}
