//! The end of sessions, and the list of them.

use actix_web::{HttpRequest, HttpResponse, ResponseError, web};
use billing_console::page::sign_in::{self as pages, SessionRow};
use billing_console::{Failure, layout, text};
use billing_domain::user::Session as Kept;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::form::Form;
use super::session::{SESSION, Session, Visitor};
use super::{Console, failed, reply};
use crate::app::App;

/// `POST /console/sign-out/`
pub async fn sign_out(
    request: HttpRequest,
    app: web::Data<App>,
    console: web::Data<Console>,
    form: Form,
) -> HttpResponse {
    let session = match known(&request, &app, &console, Some(&form)).await {
        Ok(session) => session,
        Err(answer) => return answer,
    };
    let prefix = session.key.prefix().to_owned();
    let ended = end_one(&app, &session, prefix).await;
    ended.map_or_else(|error| error.error_response(), |()| signed_out(&request, &app, &console))
}

/// To the form to sign in with, without the cookie.
fn signed_out(request: &HttpRequest, app: &App, console: &Console) -> HttpResponse {
    let mut answer = reply::go("/console/sign-in/");
    if let Err(error) = answer.add_cookie(&SESSION.gone(console.way(app, request).is_encrypted)) {
        log::error!(cause:% = error; "a cookie could not be written");
    }
    answer
}

/// `GET /console/sessions/`
pub async fn sessions(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    let session = match known(&request, &app, &console, None).await {
        Ok(session) => session,
        Err(answer) => return answer,
    };
    let user = session.signed_in.session.user;
    let kept = match app.block(None, move |backend| Ok(backend.list_sessions(user)?)).await {
        Ok(kept) => kept,
        Err(error) => return error.error_response(),
    };
    let now = session.signed_in.now;
    let rows: Vec<SessionRow> =
        kept.iter().filter(|kept| !kept.is_over(now)).map(|kept| row(kept, session.key.prefix())).collect();
    let viewer = session.viewer(&app);
    let content = pages::sessions(&rows, &viewer);
    reply::html(200, layout::page(&viewer, request.path(), text::SESSIONS, &content))
}

fn row(kept: &Kept, this: &str) -> SessionRow {
    let shown = |instant: OffsetDateTime| instant.format(&Rfc3339).unwrap_or_default();
    SessionRow {
        prefix: kept.fingerprint.prefix.clone(),
        browser: kept.browser.clone(),
        created_at: shown(kept.created_at),
        seen_at: shown(kept.seen_at),
        is_this: kept.fingerprint.prefix == this,
    }
}

/// `POST /console/sessions/{prefix}/`
pub async fn end(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>, form: Form) -> HttpResponse {
    let session = match known(&request, &app, &console, Some(&form)).await {
        Ok(session) => session,
        Err(answer) => return answer,
    };
    let prefix = request.match_info().get("prefix").unwrap_or_default().to_owned();
    let is_this = prefix == session.key.prefix();
    match end_one(&app, &session, prefix).await {
        Ok(()) if is_this => signed_out(&request, &app, &console),
        Ok(()) => reply::go("/console/sessions/"),
        Err(error) => error.error_response(),
    }
}

/// Ends a session of the same user; another's is as if it were not there.
async fn end_one(app: &web::Data<App>, session: &Session, prefix: String) -> Result<(), crate::error::ApiError> {
    let user = session.signed_in.session.user;
    app.block(None, move |backend| Ok(backend.end_session(user, &prefix)?)).await.map(drop)
}

/// The session of a request, whose form, if one was sent, belongs to it.
pub(super) async fn known(
    request: &HttpRequest,
    app: &web::Data<App>,
    console: &Console,
    form: Option<&Form>,
) -> Result<Box<Session>, HttpResponse> {
    let session = match Visitor::of(request, app, console).await {
        Visitor::Known(session) => session,
        other => return Err(other.into_sign_in(request)),
    };
    session.note(request);
    if form.is_some_and(|form| !session.has_sent(app, form)) {
        let foreign = Failure::new(403, "forbidden", text::FORM_IS_FOREIGN);
        return Err(failed(&session, request, &foreign));
    }
    Ok(session)
}
