//! How whoever looks signs in: with a password, with an account of the provider that is linked, or both.

use actix_web::http::header::{HeaderValue, REFRESH};
use actix_web::{HttpRequest, HttpResponse, ResponseError, web};
use billing_console::page::openid::{Ways, leave, ways};
use billing_console::{Failure, layout, text};
use billing_domain::user::Identity;

use super::form::Form;
use super::openid::send;
use super::session::Session;
use super::sign_in::add_cookie;
use super::sign_out::known;
use super::{Console, failed, openid_user, reply};
use crate::app::App;
use crate::error::ApiError;

const HERE: &str = "/console/identities/";

/// `GET /console/identities/`
pub async fn ask(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    let session = match known(&request, &app, &console, None).await {
        Ok(session) => session,
        Err(answer) => return answer,
    };
    page(&app, &console, &session, None).await
}

async fn page(app: &web::Data<App>, console: &Console, session: &Session, wrong: Option<&str>) -> HttpResponse {
    let email = session.signed_in.email.clone();
    let user = app.block(None, move |backend| Ok(backend.find_user(&email)?)).await;
    let (user, linked) = match (user, linked(app, console, session).await) {
        (Ok(user), Ok(linked)) => (user, linked),
        (Err(error), _) | (_, Err(error)) => return error.error_response(),
    };
    let given = match given(app, session, linked.as_ref()).await {
        Ok(given) => given,
        Err(error) => return error.error_response(),
    };
    let viewer = session.viewer(app);
    let shown = Ways {
        has_password: user.is_some_and(|user| !user.password_hash.is_empty()),
        host: console.provider.as_ref().map(|provider| provider.settings().host()),
        subject: linked.as_ref().map(|identity| identity.subject.as_str()),
        has_role_by_groups: given > 0,
    };
    let content = ways(&shown, &viewer, wrong);
    let status = if wrong.is_some() { 409 } else { 200 };
    reply::html(status, layout::page(&viewer, HERE, text::WAYS_TO_SIGN_IN, &content))
}

/// The account of the provider that the user is linked with.
async fn linked(app: &web::Data<App>, console: &Console, session: &Session) -> Result<Option<Identity>, ApiError> {
    let Some(provider) = &console.provider else { return Ok(None) };
    let user = session.signed_in.session.user;
    let all = app.block(None, move |backend| Ok(backend.list_identities(user)?)).await?;
    Ok(all.into_iter().find(|identity| identity.issuer == provider.settings().issuer))
}

/// In how many organizations the groups of the provider give the user a role.
async fn given(app: &web::Data<App>, session: &Session, linked: Option<&Identity>) -> Result<usize, ApiError> {
    let Some(identity) = linked.cloned() else { return Ok(0) };
    let user = session.signed_in.session.user;
    app.block(None, move |backend| Ok(backend.list_given(user, &identity.issuer)?.len())).await
}

/// `POST /console/identities/link/`
pub async fn link(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>, form: Form) -> HttpResponse {
    let session = match known(&request, &app, &console, Some(&form)).await {
        Ok(session) => session,
        Err(answer) => return answer,
    };
    let Some(provider) = console.provider.clone() else { return failed(&session, &request, &Failure::not_found()) };
    let user = session.signed_in.session.user;
    match send(&request, &app, &console, Some(user), HERE.to_owned()).await {
        Ok((url, cookie)) => {
            // A form of ours leads nowhere else, by the policy of our pages: this page does, by itself or by its link.
            let content = leave(provider.settings().host(), &url);
            let page = layout::page(&session.viewer(&app), HERE, text::WAYS_TO_SIGN_IN, &content);
            let mut answer = reply::html(200, page);
            if let Ok(refresh) = HeaderValue::from_str(&format!("0; url={url}")) {
                answer.headers_mut().insert(REFRESH, refresh);
            }
            add_cookie(&mut answer, &cookie);
            answer
        }
        Err(failed) => failed.page(&provider),
    }
}

/// `POST /console/identities/unlink/`
pub async fn unlink(
    request: HttpRequest,
    app: web::Data<App>,
    console: web::Data<Console>,
    form: Form,
) -> HttpResponse {
    let session = match known(&request, &app, &console, Some(&form)).await {
        Ok(session) => session,
        Err(answer) => return answer,
    };
    let identity = match linked(&app, &console, &session).await {
        Ok(Some(identity)) => identity,
        Ok(None) => return failed(&session, &request, &Failure::not_found()),
        Err(error) => return error.error_response(),
    };
    let address = console.way(&app, &request).address;
    match openid_user::change_link(&app, &session, &identity, address, false).await {
        Ok(true) => reply::go(HERE),
        Ok(false) => page(&app, &console, &session, Some(text::UNLINK_REFUSED)).await,
        Err(error) => error.error_response(),
    }
}
