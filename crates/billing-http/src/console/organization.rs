//! The organizations of a user, and going from one to another.

use actix_web::{HttpRequest, HttpResponse, ResponseError, web};
use billing_console::page::organizations::{OrganizationRow, page};
use billing_console::{Failure, layout, text};
use billing_domain::id::OrganizationId;
use billing_domain::user::Membership;

use super::form::Form;
use super::sign_in::add_cookie;
use super::sign_out::known;
use super::{Console, failed, reply, session};
use crate::app::App;

/// `GET /console/organizations/`
pub async fn ask(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    let session = match known(&request, &app, &console, None).await {
        Ok(session) => session,
        Err(answer) => return answer,
    };
    let email = session.signed_in.email.clone();
    let user = match app.block(None, move |backend| Ok(backend.find_user(&email)?)).await {
        Ok(user) => user,
        Err(error) => return error.error_response(),
    };
    let here = session.signed_in.membership.organization;
    let row = |one: &Membership| OrganizationRow {
        id: one.organization.to_string(),
        name: one.organization_name.clone(),
        role: one.role,
        is_this: one.organization == here,
    };
    let rows: Vec<_> = user.iter().flat_map(|user| &user.memberships).map(row).collect();
    let viewer = session.viewer(&app);
    reply::html(200, layout::page(&viewer, request.path(), text::ORGANIZATIONS, &page(&rows, &viewer.form_token)))
}

/// `POST /console/organizations/`
pub async fn switch(
    request: HttpRequest,
    app: web::Data<App>,
    console: web::Data<Console>,
    form: Form,
) -> HttpResponse {
    let session = match known(&request, &app, &console, Some(&form)).await {
        Ok(session) => session,
        Err(answer) => return answer,
    };
    let chosen = form.0.get("organization_id").and_then(|id| id.parse::<OrganizationId>().ok());
    let Some(chosen) = chosen else { return failed(&session, &request, &Failure::not_found()) };
    match session::switch(&session, &app, console.way(&app, &request).is_encrypted, chosen).await {
        Ok(Some(cookie)) => {
            let mut answer = reply::go("/console/");
            add_cookie(&mut answer, &cookie);
            answer
        }
        Ok(None) => failed(&session, &request, &Failure::not_found()),
        Err(error) => error.error_response(),
    }
}
