//! Voiding a credit note: asked first, done once.

use maud::html;
use serde_json::{Value, json};

use crate::api::Failure;
use crate::form::Form;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// `GET /console/credit_notes/{credit_note_id}/void/`
///
/// # Errors
/// When there is no such credit note.
pub async fn confirm<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let note = visit.get(format!("/api/credit_notes/{}/", escaped(&visit.id))).await?;
    let invoice = super::invoice_path(&note);
    let form =
        Form { fields: &[], button: text::CONFIRM_VOID_CREDIT_NOTE, is_danger: true, back: (&invoice, text::KEEP) };
    let content = html! {
        nav.path { a href=(invoice) { (text::INVOICE) " " (show::plain(&note["invoice_number"])) } }
        h1 { (text::VOID_CREDIT_NOTE) }
        (facts(&note))
        p { (text::VOID_CREDIT_NOTE_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::VOID_CREDIT_NOTE.to_owned(), content))
}

fn facts(note: &Value) -> maud::Markup {
    html! {
        dl.facts {
            div { dt { (text::NUMBER) } dd { (show::plain(&note["credit_note_number"])) } }
            div { dt { (text::AMOUNT) } dd { (show::amount(&note["amount"], &note["currency"])) } }
            div { dt { (text::REASON) } dd.long { (show::plain(&note["reason"])) } }
        }
    }
}

/// `POST /console/credit_notes/{credit_note_id}/void/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let voided = visit.post(format!("/api/credit_notes/{}/void/", escaped(&visit.id)), json!(null)).await?;
    Ok(Outcome::Go(super::invoice_path(&voided)))
}
