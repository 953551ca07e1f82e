//! Taking back a part of an invoice by a credit note.

use maud::html;
use serde_json::{Map, Value};

use super::invoice_path;
use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const AMOUNT: Field = Field::new("amount", text::AMOUNT, Input::Number).required().hint(text::CREDIT_NOTE_AMOUNT_HINT);
/// What every credit note says.
pub(super) const TERMS: [Field; 3] = [
    Field::new(
        "settlement",
        text::SETTLEMENT,
        Input::Choice(&[("balance", text::TO_BALANCE), ("outside", text::OUTSIDE)]),
    ),
    Field::new("reference", text::REFERENCE_OF_PAYMENT, Input::Text(200)).hint(text::REFUND_REFERENCE_HINT),
    Field::new("reason", text::REASON, Input::Text(500)).required(),
];
const FIELDS: [Field; 4] = [AMOUNT, TERMS[0], TERMS[1], TERMS[2]];

/// `GET /console/invoices/{invoice_id}/credit_notes/`
///
/// # Errors
/// When there is no such invoice.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let invoice = visit.get(format!("/api/invoices/{}/", escaped(&visit.id))).await?;
    let here = invoice_path(&invoice);
    let form = Form {
        fields: &crate::form::empty(&FIELDS),
        button: text::CREATE_CREDIT_NOTE,
        is_danger: false,
        back: (&here, text::BACK),
    };
    let currency = &invoice["currency"];
    let content = html! {
        nav.path { a href=(here) { (text::INVOICE) " " (show::plain(&invoice["invoice_number"])) } }
        h1 { (text::CREATE_CREDIT_NOTE) }
        dl.facts {
            div { dt { (text::BILLED_TO) } dd.long { (show::name(&invoice["customer"])) } }
            div { dt { (text::TOTAL) } dd { (show::amount(&invoice["amount"], currency)) } }
            div { dt { (text::AMOUNT_DUE) } dd { (show::amount(&invoice["amount_due"], currency)) } }
        }
        p { (text::CREDIT_NOTE_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::CREATE_CREDIT_NOTE.to_owned(), content))
}

/// `POST /console/invoices/{invoice_id}/credit_notes/`
///
/// # Errors
/// When there is no such invoice; those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    create(visit, body(visit, &FIELDS)?).await
}

/// Has a credit note made of the invoice that the path names, and leads back to that.
///
/// # Errors
/// When there is no such invoice; those of the call.
pub(super) async fn create<'v>(visit: &'v Visit<'v>, mut body: Map<String, Value>) -> Result<Outcome, Failure> {
    let invoice = visit.get(format!("/api/invoices/{}/", escaped(&visit.id))).await?;
    body.insert("invoice_id".to_owned(), invoice["invoice_id"].clone());
    body.entry("settlement").or_insert_with(|| Value::from("balance"));
    visit.post("/api/credit_notes/", body).await?;
    Ok(Outcome::Go(invoice_path(&invoice)))
}
