//! Inviting somebody, and changing what somebody may.

use maud::html;

use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const LIST: &str = "/console/users/";
const ROLE: Field = Field::new(
    "role",
    text::ROLE,
    Input::Choice(&[
        ("reader", text::ROLE_READER),
        ("support", text::ROLE_SUPPORT),
        ("finance", text::ROLE_FINANCE),
        ("developer", text::ROLE_DEVELOPER),
        ("owner", text::ROLE_OWNER),
    ]),
)
.required();
const FIELDS: [Field; 2] = [Field::new("email", text::EMAIL, Input::Text(254)).required(), ROLE];

/// `GET /console/users/invite/`
///
/// # Errors
/// None.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let fields = crate::form::empty(&FIELDS);
    let form = Form { fields: &fields, button: text::INVITE, is_danger: false, back: (LIST, text::BACK) };
    let content = html! {
        nav.path { a href=(LIST) { (text::USERS) } }
        h1 { (text::INVITE) }
        p { (text::INVITE_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::INVITE.to_owned(), content))
}

/// `POST /console/users/invite/`: shows the link, this once.
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let invited = visit.post("/api/users/invite/", body(visit, &FIELDS)?).await?;
    let content = html! {
        nav.path { a href=(LIST) { (text::USERS) } }
        h1 { (text::INVITED) }
        p { (text::INVITED_EXPLAINED) }
        dl.facts {
            div { dt { (text::EMAIL) } dd.long { (show::plain(&invited["email"])) } }
            div { dt { (text::ROLE) } dd { (show::plain(&invited["role"])) } }
            div { dt { (text::EXPIRES) } dd { (show::instant(&invited["expires_at"], &visit.viewer.zone)) } }
        }
        pre tabindex="0" { (show::plain(&invited["link"])) }
    };
    Ok(Outcome::Page(text::INVITED.to_owned(), content))
}

/// `GET /console/users/{user_id}/role/`
///
/// # Errors
/// None.
pub async fn ask_role<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let present = visit.query.get("role").unwrap_or_default().to_owned();
    let fields = [(ROLE, present)];
    let form = Form { fields: &fields, button: text::CHANGE_ROLE, is_danger: false, back: (LIST, text::BACK) };
    let content = html! {
        nav.path { a href=(LIST) { (text::USERS) } }
        h1 { (text::CHANGE_ROLE) }
        p.long { (visit.query.get("email").unwrap_or_default()) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::CHANGE_ROLE.to_owned(), content))
}

/// `POST /console/users/{user_id}/role/`
///
/// # Errors
/// Those of the call.
pub async fn change_role<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    visit.patch(format!("/api/users/{}/", escaped(&visit.id)), body(visit, &[ROLE])?).await?;
    Ok(Outcome::Go(LIST.to_owned()))
}
