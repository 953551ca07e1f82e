//! The search box: who or what is looked for is shown at once.

use maud::html;
use serde_json::Value;

use super::{customer_path, invoice_path};
use crate::api::Failure;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// `GET /console/search/`
///
/// # Errors
/// Those of the search.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let Some(query) = visit.query.get("q") else {
        let content = html! { h1 { (text::SEARCH) } p.empty { (text::SEARCH_EMPTY) } };
        return Ok(Outcome::Page(text::SEARCH.to_owned(), content));
    };
    let escaped = escaped(query);
    if let Some(customer) = found(visit.get(format!("/api/customers/{escaped}/")).await)? {
        return Ok(Outcome::Go(customer_path(&show::plain(&customer["customer_id"]))));
    }
    let with_email = found(visit.get(format!("/api/customers/?email={escaped}")).await)?;
    if let Some(customer) = with_email.as_ref().and_then(|list| show::items(list).first()) {
        return Ok(Outcome::Go(customer_path(&show::plain(&customer["customer_id"]))));
    }
    if let Some(invoice) = found(visit.get(format!("/api/invoices/{escaped}/")).await)? {
        return Ok(Outcome::Go(invoice_path(&invoice)));
    }
    let content = html! {
        h1 { (text::SEARCH) }
        p { code.long { (query) } }
        p.empty { (text::NOTHING_FOUND) }
    };
    Ok(Outcome::Page(text::SEARCH.to_owned(), content))
}

/// What there is; nothing when there is no such thing, or what was typed cannot name one.
fn found(read: Result<Value, Failure>) -> Result<Option<Value>, Failure> {
    match read {
        Err(failure) if failure.status < 500 => Ok(None),
        read => read.map(Some),
    }
}
