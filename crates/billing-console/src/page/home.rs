//! Home: what a person should know this morning.

use maud::{Markup, html};
use serde_json::Value;

use super::invoice_table;
use crate::api::Failure;
use crate::layout::failed_part;
use crate::route::Outcome;
use crate::visit::Visit;
use crate::{show, text};

/// Newest invoices that wait for money.
const UNPAID_SHOWN: u32 = 12;
/// An organization has 16 at most.
const ENDPOINTS_LOOKED_AT: u32 = 16;

/// `GET /console/`
///
/// # Errors
/// None: each part fails by itself.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let endpoints = visit.get(format!("/api/webhook_endpoints/?limit={ENDPOINTS_LOOKED_AT}")).await;
    let unpaid = visit.get(format!("/api/invoices/?status=unpaid&limit={UNPAID_SHOWN}")).await;
    let content = html! {
        h1 { (text::HOME) }
        @match &endpoints {
            Ok(endpoints) => { (failing(show::items(endpoints))) }
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

/// What asks for somebody now; nothing when all is well.
fn failing(endpoints: &[Value]) -> Markup {
    let failing: Vec<_> = endpoints.iter().filter(|endpoint| !endpoint["failing_since"].is_null()).collect();
    html! {
        @if !failing.is_empty() {
            div.notice.bad {
                p { strong { (text::WEBHOOKS_FAILING) ": " (failing.len()) } }
                @for endpoint in failing {
                    p { code.long { (show::plain(&endpoint["url"])) } " " (text::SINCE) " " (show::instant(&endpoint["failing_since"])) }
                }
                p { a href="/console/webhooks/" { (text::WEBHOOKS) } }
            }
        }
    }
}
