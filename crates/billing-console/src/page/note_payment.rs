//! Noting a payment that came for an invoice.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::invoice_path;
use crate::api::Failure;
use crate::layout::form_token;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// `GET /console/invoices/{invoice_id}/payments/`
///
/// # Errors
/// When there is no such invoice.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let invoice = visit.get(format!("/api/invoices/{}/", escaped(&visit.id))).await?;
    Ok(Outcome::Page(text::NOTE_PAYMENT.to_owned(), form(visit, &invoice)))
}

fn form(visit: &Visit<'_>, invoice: &Value) -> Markup {
    html! {
        nav.path { a href=(invoice_path(invoice)) { (text::INVOICE) " " (show::plain(&invoice["invoice_number"])) } }
        h1 { (text::NOTE_PAYMENT) }
        dl.facts {
            div { dt { (text::BILLED_TO) } dd.long { (show::name(&invoice["customer"])) } }
            div { dt { (text::AMOUNT_DUE) } dd { (show::amount(&invoice["amount_due"], &invoice["currency"])) } }
        }
        form.act method="post" {
            (form_token(&visit.viewer.form_token))
            input type="hidden" name="once" value=(visit.once);
            label for="amount" { (text::AMOUNT) ", " (show::code(&invoice["currency"])) }
            input id="amount" name="amount" inputmode="decimal" required maxlength="40" aria-describedby="amount-hint"
                value=(show::plain(&invoice["amount_due"]));
            p.hint id="amount-hint" { (text::AMOUNT_HINT) }
            label for="reference" { (text::REFERENCE_OF_PAYMENT) }
            input id="reference" name="reference" maxlength="200" autocomplete="off" aria-describedby="reference-hint";
            p.hint id="reference-hint" { (text::REFERENCE_HINT) }
            label for="method" { (text::METHOD) }
            input id="method" name="method" maxlength="100" aria-describedby="method-hint";
            p.hint id="method-hint" { (text::METHOD_HINT) }
            button type="submit" { (text::NOTE_PAYMENT) }
            a href=(invoice_path(invoice)) { (text::BACK) }
        }
    }
}

/// `POST /console/invoices/{invoice_id}/payments/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let mut body = Map::new();
    for field in ["amount", "reference", "method"] {
        if let Some(value) = visit.form.get(field) {
            body.insert(field.to_owned(), Value::from(value));
        }
    }
    let noted = visit.post(format!("/api/invoices/{}/payments/", escaped(&visit.id)), Value::Object(body)).await?;
    Ok(Outcome::Go(invoice_path(&noted)))
}
