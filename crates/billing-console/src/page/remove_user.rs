//! Taking somebody out of the organization: asked first.

use maud::html;

use crate::api::Failure;
use crate::form::Form;
use crate::route::Outcome;
use crate::text;
use crate::visit::{Visit, escaped};

const LIST: &str = "/console/users/";

/// `GET /console/users/{user_id}/remove/`
///
/// # Errors
/// None.
pub async fn confirm<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let form = Form { fields: &[], button: text::REMOVE_USER, is_danger: true, back: (LIST, text::KEEP) };
    let content = html! {
        nav.path { a href=(LIST) { (text::USERS) } }
        h1 { (text::REMOVE_USER) }
        p.long { (visit.query.get("email").unwrap_or_default()) }
        p { (text::REMOVE_USER_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::REMOVE_USER.to_owned(), content))
}

/// `POST /console/users/{user_id}/remove/`
///
/// # Errors
/// Those of the call: the last owner stays.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    visit.delete(format!("/api/users/{}/", escaped(&visit.id))).await?;
    Ok(Outcome::Go(LIST.to_owned()))
}
