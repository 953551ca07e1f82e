//! Noting a payment that came for an invoice.

use maud::html;

use super::invoice_path;
use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const AMOUNT: Field = Field::new("amount", text::AMOUNT, Input::Number).required().hint(text::AMOUNT_HINT);
const REFERENCE: Field =
    Field::new("reference", text::REFERENCE_OF_PAYMENT, Input::Text(200)).hint(text::REFERENCE_HINT);
const METHOD: Field = Field::new("method", text::METHOD, Input::Text(100)).hint(text::METHOD_HINT);

/// `GET /console/invoices/{invoice_id}/payments/`
///
/// # Errors
/// When there is no such invoice.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let invoice = visit.get(format!("/api/invoices/{}/", escaped(&visit.id))).await?;
    let here = invoice_path(&invoice);
    let due = show::plain(&invoice["amount_due"]);
    let fields = [(AMOUNT, due), (REFERENCE, String::new()), (METHOD, String::new())];
    let form = Form { fields: &fields, button: text::NOTE_PAYMENT, is_danger: false, back: (&here, text::BACK) };
    let content = html! {
        nav.path { a href=(here) { (text::INVOICE) " " (show::plain(&invoice["invoice_number"])) } }
        h1 { (text::NOTE_PAYMENT) }
        dl.facts {
            div { dt { (text::BILLED_TO) } dd.long { (show::name(&invoice["customer"])) } }
            div { dt { (text::AMOUNT_DUE) } dd { (show::amount(&invoice["amount_due"], &invoice["currency"])) } }
        }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::NOTE_PAYMENT.to_owned(), content))
}

/// `POST /console/invoices/{invoice_id}/payments/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let path = format!("/api/invoices/{}/payments/", escaped(&visit.id));
    let noted = visit.post(path, body(visit, &[AMOUNT, REFERENCE, METHOD])?).await?;
    Ok(Outcome::Go(invoice_path(&noted)))
}
