//! The search box: customers, invoices and events by what was typed; who or what it can only be is shown at once.

use maud::{Markup, html};
use serde_json::Value;

use super::customers::customer_table;
use super::events::receipt_path;
use super::{ROWS, customer_path, invoice_path, invoice_table};
use crate::api::Failure;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

/// Events of one id that are shown: each is of a customer of its own.
const EVENTS_SHOWN: u32 = 10;

/// `GET /console/search/`: exactly one find is gone to.
///
/// # Errors
/// Those of the search.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let Some(query) = visit.query.get("q") else {
        let content = html! { h1 { (text::SEARCH) } p.empty { (text::SEARCH_EMPTY) } };
        return Ok(Outcome::Page(text::SEARCH.to_owned(), content));
    };
    let found = Found::of(visit, query).await?;
    Ok(match found.only() {
        Some(to) => Outcome::Go(to),
        None => Outcome::Page(text::SEARCH.to_owned(), found.shown(query, &visit.viewer.zone)),
    })
}

/// What goes by what was typed.
struct Found {
    customers: Vec<Value>,
    invoices: Vec<Value>,
    events: Vec<Value>,
    has_more_events: bool,
}

impl Found {
    async fn of(visit: &Visit<'_>, query: &str) -> Result<Self, Failure> {
        let escaped = escaped(query);
        let mut customers = Vec::new();
        match found(visit.get(format!("/api/customers/{escaped}/")).await)? {
            // Whoever is called exactly so is meant, not those whose ids begin so.
            Some(customer) => customers.push(customer),
            None => {
                let list = found(visit.get(format!("/api/customers/?search={escaped}&limit={ROWS}")).await)?;
                customers.extend(list.iter().flat_map(show::items).cloned());
            }
        }
        let invoices = found(visit.get(format!("/api/invoices/{escaped}/")).await)?;
        let events = visit.list(format!("/api/events/?idempotency_id={escaped}&limit={EVENTS_SHOWN}")).await;
        let (events, has_more_events) = match events {
            Err(failure) if is_nothing(&failure) => (Vec::new(), false),
            events => events.map(|list| (show::items(&list.value).to_vec(), list.next.is_some()))?,
        };
        Ok(Self { customers, invoices: invoices.into_iter().collect(), events, has_more_events })
    }

    /// Where the only find is shown.
    fn only(&self) -> Option<String> {
        match (&self.customers[..], &self.invoices[..], &self.events[..]) {
            ([customer], [], []) => Some(customer_path(&show::plain(&customer["customer_id"]))),
            ([], [invoice], []) => Some(invoice_path(invoice)),
            ([], [], [event]) => Some(receipt_of(event)),
            _ => None,
        }
    }

    fn shown(&self, query: &str, zone: &ViewerZone) -> Markup {
        let is_nothing = self.customers.is_empty() && self.invoices.is_empty() && self.events.is_empty();
        html! {
            h1 { (text::SEARCH) }
            p { code.long { (query) } }
            @if is_nothing { p.empty { (text::NOTHING_FOUND) } }
            @if !self.customers.is_empty() { section {
                h2 { (text::CUSTOMERS) }
                @if self.customers.len() >= ROWS as usize { p.hint { (text::MORE_FOUND) } }
                (customer_table(&self.customers))
            } }
            @if !self.invoices.is_empty() { section {
                h2 { (text::INVOICES) }
                (invoice_table(&self.invoices, true))
            } }
            @if !self.events.is_empty() { section {
                h2 { (text::EVENTS) }
                @if self.has_more_events { p.hint { (text::MORE_EVENTS_FOUND) } }
                (event_table(&self.events, zone))
            } }
        }
    }
}

fn receipt_of(event: &Value) -> String {
    receipt_path(&show::plain(&event["customer_id"]), event)
}

fn event_table(events: &[Value], zone: &ViewerZone) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { (text::EVENT) } th { (text::CUSTOMER) } th { (text::NAME) } th { (text::WINDOW) } th { (text::STATUS) } } }
            tbody { @for event in events { tr {
                td.long { a href=(receipt_of(event)) { (show::plain(&event["idempotency_id"])) } }
                td.long { (show::plain(&event["customer_id"])) }
                td.long { (show::plain(&event["event_name"])) }
                td { (show::instant(&event["time_created"], zone)) }
                td { (show::badge(event["state"].as_str().unwrap_or_default())) }
            } } }
        } }
    }
}

/// What there is; nothing when there is no such thing, or what was typed cannot name one.
fn found(read: Result<Value, Failure>) -> Result<Option<Value>, Failure> {
    match read {
        Err(failure) if is_nothing(&failure) => Ok(None),
        read => read.map(Some),
    }
}

fn is_nothing(failure: &Failure) -> bool {
    [400, 404].contains(&failure.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_there_is_not_found() {
        #[rustfmt::skip]
        let cases = [
            // status, found, why
            (404, true,  "there is no such thing"),
            (400, true,  "what was typed cannot name one"),
            (403, false, "they may not look"),
            (429, false, "they are to come again"),
            (503, false, "nobody knows"),
        ];
        for (status, is_nothing, why) in cases {
            let read = found(Err(Failure::new(status, "x", "y")));
            assert_eq!(read == Ok(None), is_nothing, "{status}: {why}");
        }
    }
}
