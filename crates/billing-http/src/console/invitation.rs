//! Taking an invitation: somebody new chooses a password, and somebody who is a user elsewhere proves to be.

use std::time::Instant;

use actix_web::{HttpRequest, HttpResponse, ResponseError, web};
use billing_console::page::sign_in::{self as pages, Proof};
use billing_console::{layout, text};
use billing_domain::audit::{Actor, Change};
use billing_domain::store::Scope;
use billing_domain::user::{Invited, Member};
use billing_domain::workflow::accept_invitation;

use super::form::Form;
use super::session::{Visitor, begin};
use super::sign_in::{Blank, add_cookie, hashed, is_ours, known, link_of};
use super::{Console, reply};
use crate::app::App;
use crate::caller::KeyText;
use crate::error::{ApiError, codes};
use crate::password;
use crate::request_id;

/// `GET /console/invitation/{link}/`
pub async fn ask(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    match open(&request, &app).await {
        Ok(Some(invited)) => {
            let proof = proof_of(&request, &app, &console, &invited).await;
            page(&request, &app, &console, (&invited, proof), 200, None)
        }
        Ok(None) => over(),
        Err(error) => error.error_response(),
    }
}

/// `POST /console/invitation/{link}/`
pub async fn accept(
    request: HttpRequest,
    app: web::Data<App>,
    console: web::Data<Console>,
    form: Form,
) -> HttpResponse {
    let invited = match open(&request, &app).await {
        Ok(Some(invited)) => invited,
        Ok(None) => return over(),
        Err(error) => return error.error_response(),
    };
    let way = console.way(&app, &request);
    let proof = proof_of(&request, &app, &console, &invited).await;
    let again = |status, wrong| page(&request, &app, &console, (&invited, proof), status, Some(wrong));
    let email = &invited.invitation.email;
    if !is_ours(&request, &app, way.is_encrypted, &form) {
        return again(403, text::FORM_IS_FOREIGN);
    }
    if !console.throttle.may_try(way.address, email, Instant::now()) {
        return again(429, text::TOO_MANY_TRIES);
    }
    let password = form.0.0.iter().find(|(name, _)| name == "password").map(|(_, value)| value.clone());
    let password = password.unwrap_or_default();
    let proven = if proof == Proof::Session {
        Ok(None)
    } else if invited.is_user {
        match known(&app, &console, email, password).await {
            Ok(Some(_)) => Ok(None),
            Ok(None) => return again(401, text::WRONG_PASSWORD),
            Err(error) => Err(error),
        }
    } else if password::is_acceptable(&password) {
        hashed(&console, password).await.map(Some)
    } else {
        return again(400, text::PASSWORD_IS_SHORT);
    };
    let member = match proven {
        Ok(new_password) => take(&app, &invited, new_password, way.address.map(|address| address.to_string())).await,
        Err(error) => Err(error),
    };
    let begun = match member {
        Ok(member) => begin(&request, &app, way.is_encrypted, member.user, invited.invitation.organization).await,
        Err(error) if error.title() == codes::NOT_FOUND.text => return over(),
        Err(error) => Err(error),
    };
    match begun {
        Ok(cookie) => {
            console.throttle.succeeded(way.address, email);
            let mut answer = reply::go("/console/");
            add_cookie(&mut answer, &cookie);
            answer
        }
        Err(error) => error.error_response(),
    }
}

/// How whoever opens an invitation shows who they are. Somebody without a password, whom a provider vouches for, has a session.
async fn proof_of(request: &HttpRequest, app: &web::Data<App>, console: &Console, invited: &Invited) -> Proof {
    if !invited.is_user {
        return Proof::NewPassword;
    }
    match Visitor::of(request, app, console).await {
        Visitor::Known(session) if session.signed_in.email == invited.invitation.email => Proof::Session,
        _ => Proof::Password,
    }
}

/// The invitation that the path opens, if it does.
async fn open(request: &HttpRequest, app: &web::Data<App>) -> Result<Option<Invited>, ApiError> {
    let Some(key) = KeyText::parse(link_of(request)) else { return Ok(None) };
    let prefix = key.prefix().to_owned();
    let found = app.block(None, move |backend| Ok(backend.find_invitation(&prefix)?)).await?;
    let digest = found.as_ref().map(|found| found.invitation.fingerprint.digest.clone()).unwrap_or_default();
    let is_right = app.pepper.matches(&key, &digest);
    Ok(found.filter(|found| is_right && !found.invitation.is_over(found.now)))
}

/// Makes a user of whoever was invited; it is in the audit log as what they did themselves.
async fn take(
    app: &web::Data<App>,
    invited: &Invited,
    new_password: Option<String>,
    address: Option<String>,
) -> Result<Member, ApiError> {
    let (organization, fingerprint) = (invited.invitation.organization, invited.invitation.fingerprint.clone());
    let request_id = request_id::current();
    app.run(Scope::Catalog(organization), move |tx, now| {
        let member = accept_invitation(tx, &fingerprint, new_password.as_deref(), now)?;
        let after = serde_json::json!({"user_id": member.user.to_string(), "email": member.email, "role": member.role.as_str()});
        tx.audit_log().insert(Change {
            actor: Actor::user(member.user, &member.email),
            address: address.clone(),
            request_id: request_id.clone(),
            operation: "accept_invitation".to_owned(),
            kind: "user".to_owned(),
            subject: Some(member.user.to_string()),
            customer: None,
            before: None,
            after: Some(after.to_string()),
        })?;
        Ok(member)
    })
    .await
}

fn page(
    request: &HttpRequest,
    app: &App,
    console: &Console,
    (invited, proof): (&Invited, Proof),
    status: u16,
    wrong: Option<&str>,
) -> HttpResponse {
    let blank = match Blank::new(request, app, console.way(app, request).is_encrypted) {
        Ok(blank) => blank,
        Err(error) => return error.error_response(),
    };
    let Invited { invitation, organization_name, .. } = invited;
    let offered = (invitation.email.as_str(), organization_name.as_str(), invitation.role);
    let content = pages::invitation(&blank.token, request.path(), offered, proof, wrong);
    let mut answer = reply::html(status, layout::bare(text::INVITATION, &content));
    add_cookie(&mut answer, &blank.cookie);
    answer
}

/// There is no such invitation any more.
fn over() -> HttpResponse {
    reply::html(404, layout::bare(text::NOT_FOUND_TITLE, &pages::told(text::INVITATION_IS_OVER)))
}
