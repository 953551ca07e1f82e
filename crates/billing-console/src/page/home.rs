//! Home: what a person should know this morning.

use maud::{Markup, html};
use serde_json::Value;

use super::invoice_table;
use super::recent_events::recent_events;
use crate::api::Failure;
use crate::layout::{failed_part, part};
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::Visit;
use crate::{show, text};

/// Newest invoices that wait for money.
const UNPAID_SHOWN: u32 = 12;
/// How old figures may be while somebody looks.
const FIGURES_SECONDS: u32 = 15;
const APPROVALS: &str = "/console/approvals/";
/// From so many requests for a second person on they are many.
const WAITING_COUNTED: usize = 100;
/// From so many seconds on it asks for somebody that billing is behind.
const LAG_SECONDS_MAX: u64 = 3_600;

/// `GET /console/`
///
/// # Errors
/// None: each part fails by itself.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let overview = visit.get("/api/overview/").await;
    let unpaid = visit.get(format!("/api/invoices/?status=unpaid&limit={UNPAID_SHOWN}")).await;
    let waiting = match is_open_to(visit.viewer.role, Method::Get, APPROVALS) {
        true => visit.get(format!("/api/approvals/?state=waiting&limit={WAITING_COUNTED}")).await.ok(),
        false => None,
    };
    let content = html! {
        h1 { (text::HOME) }
        @if let Some(waiting) = waiting.as_ref().map(show::items).filter(|waiting| !waiting.is_empty()) {
            div.notice { p { a href=(APPROVALS) {
                @if waiting.len() < WAITING_COUNTED { (waiting.len()) } @else { (text::MANY) }
                " " (text::WAITING_FOR_SECOND)
            } } }
        }
        @match &overview {
            Ok(overview) => { (part("figures", FIGURES_SECONDS, true, &figures(overview))) (recent_events(&overview["events"], &visit.viewer.zone)) }
            Err(failure) => { (failed_part(failure)) }
        }
        section {
            h2 { (text::NEWEST_UNPAID) }
            @match &unpaid {
                Ok(list) if show::items(list).is_empty() => { p.empty { (text::NOTHING_UNPAID) } }
                Ok(list) => {
                    (invoice_table(show::items(list), true))
                    p { a href="/console/invoices/?status=unpaid" { (text::UNPAID_INVOICES) } }
                }
                Err(failure) => { (failed_part(failure)) }
            }
        }
    };
    Ok(Outcome::Page(text::HOME.to_owned(), content))
}

fn figures(overview: &Value) -> Markup {
    let invoiced = show::items(&overview["invoiced"]);
    let count = |field: &str| overview[field].as_u64().unwrap_or_default();
    let lag = count("billing_lag_seconds");
    let behind = if lag == 0 { text::BILLING_UP_TO_DATE.to_owned() } else { show::length(&(lag * 1_000_000).into()) };
    let webhooks = html! { a href="/console/webhooks/" { (text::WEBHOOKS) } };
    html! {
        section.cards {
            @if invoiced.is_empty() {
                div.card { h2 { (text::THIS_MONTH) } p.quiet { (text::NOTHING_INVOICED) } }
            }
            @for one in invoiced {
                div.card {
                    h2 { (text::THIS_MONTH) }
                    p.figure { (show::amount(&one["this_month"], &one["currency_code"])) }
                    p.quiet { (show::amount(&one["last_month_so_far"], &one["currency_code"])) " " (text::LAST_MONTH_SO_FAR) }
                    p.quiet { (show::amount(&one["last_month"], &one["currency_code"])) " " (text::LAST_MONTH) }
                }
            }
        }
        section.cards.small {
            (state(text::BILLING_LAG, &behind, lag > LAG_SECONDS_MAX, &html! {}))
            (state(text::CUSTOMERS_DUE, &show::number(&overview["customers_due"]), false, &html! {}))
            (state(
                text::CUSTOMERS_PARKED, &show::number(&overview["customers_parked"]), count("customers_parked") > 0,
                &html! { (text::PARKED_HINT) },
            ))
            (state(
                text::WEBHOOKS_FAILING, &show::number(&overview["webhooks_failing"]), count("webhooks_failing") > 0, &webhooks,
            ))
        }
    }
}

/// One figure of the machine: whether it asks for somebody is said by colour and by words.
fn state(name: &str, figure: &str, is_bad: bool, hint: &Markup) -> Markup {
    html! {
        div.card.alarm[is_bad] {
            h2 { (name) }
            p.figure { (figure) }
            @if is_bad { p { (hint) } }
        }
    }
}
