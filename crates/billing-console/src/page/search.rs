//! The search box: who or what is looked for is shown at once.

use maud::html;
use serde_json::Value;

use super::customers::customer_table;
use super::{ROWS, customer_path, invoice_path};
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
    if let Some(invoice) = found(visit.get(format!("/api/invoices/{escaped}/")).await)? {
        return Ok(Outcome::Go(invoice_path(&invoice)));
    }
    let customers = found(visit.get(format!("/api/customers/?search={escaped}&limit={ROWS}")).await)?;
    let customers = customers.as_ref().map_or(&[][..], |list| show::items(list));
    if let [only] = customers {
        return Ok(Outcome::Go(customer_path(&show::plain(&only["customer_id"]))));
    }
    let content = html! {
        h1 { (text::SEARCH) }
        p { code.long { (query) } }
        @if customers.is_empty() { p.empty { (text::NOTHING_FOUND) } } @else {
            @if customers.len() >= ROWS as usize { p.hint { (text::MORE_FOUND) } }
            (customer_table(customers))
        }
    };
    Ok(Outcome::Page(text::SEARCH.to_owned(), content))
}

/// What there is; nothing when there is no such thing, or what was typed cannot name one.
fn found(read: Result<Value, Failure>) -> Result<Option<Value>, Failure> {
    match read {
        Err(failure) if [400, 404].contains(&failure.status) => Ok(None),
        read => read.map(Some),
    }
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
