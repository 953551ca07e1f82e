//! Giving a customer a credit.

use maud::html;

use super::customer_path;
use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const FIELDS: [Field; 4] = [
    Field::new("amount", text::AMOUNT, Input::Number).required(),
    Field::new("currency_code", text::CURRENCY, Input::Text(10)).required(),
    Field::new("description", text::DESCRIPTION, Input::Text(200)).hint(text::CREDIT_DESCRIPTION_HINT),
    Field::new("expires_at", text::EXPIRES, Input::Instant),
];

/// `GET /console/customers/{customer_id}/credit/`
///
/// # Errors
/// When there is no such customer.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let customer = visit.get(format!("/api/customers/{}/", escaped(&visit.id))).await?;
    let organization = visit.get("/api/organization/").await?;
    let mut fields = crate::form::empty(&FIELDS);
    let preferred = &customer["default_currency"];
    let currency = if preferred.is_null() { &organization["default_currency"] } else { preferred };
    fields[1].1 = show::code(currency);
    let here = customer_path(&visit.id);
    let form = Form { fields: &fields, button: text::GIVE_CREDIT, is_danger: false, back: (&here, text::BACK) };
    let content = html! {
        nav.path { a href=(here) { (show::name(&customer)) } }
        h1 { (text::GIVE_CREDIT) }
        p { (text::GIVE_CREDIT_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::GIVE_CREDIT.to_owned(), content))
}

/// `POST /console/customers/{customer_id}/credit/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let mut body = body(visit, &FIELDS)?;
    body.insert("customer_id".to_owned(), visit.id.as_str().into());
    visit.post("/api/credits/", body).await?;
    Ok(Outcome::Go(customer_path(&visit.id)))
}
