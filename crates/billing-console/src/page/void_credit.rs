//! Voiding what is left of a credit: asked first, done once.

use maud::html;
use serde_json::{Value, json};

use super::customer_path;
use crate::api::Failure;
use crate::form::Form;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

fn owner_path(credit: &Value) -> String {
    customer_path(&show::plain(&credit["customer"]["customer_id"]))
}

/// `GET /console/credits/{credit_id}/void/`
///
/// # Errors
/// When there is no such credit.
pub async fn confirm<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let credit = visit.get(format!("/api/credits/{}/", escaped(&visit.id))).await?;
    let owner = owner_path(&credit);
    let form = Form { fields: &[], button: text::CONFIRM_VOID_CREDIT, is_danger: true, back: (&owner, text::KEEP) };
    let content = html! {
        nav.path { a href=(owner) { (show::name(&credit["customer"])) } }
        h1 { (text::VOID_CREDIT) }
        dl.facts {
            div { dt { (text::DESCRIPTION) } dd.long { (show::or_none(&credit["description"])) } }
            div { dt { (text::AMOUNT) } dd { (show::amount(&credit["amount"], &credit["currency"])) } }
            div { dt { (text::REMAINING) } dd { (show::amount(&credit["amount_remaining"], &credit["currency"])) } }
        }
        p { (text::VOID_CREDIT_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::VOID_CREDIT.to_owned(), content))
}

/// `POST /console/credits/{credit_id}/void/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let voided = visit.post(format!("/api/credits/{}/void/", escaped(&visit.id)), json!(null)).await?;
    Ok(Outcome::Go(owner_path(&voided)))
}
