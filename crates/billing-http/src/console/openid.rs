//! Signing in with the OpenID provider: being sent there, and coming back.

use std::time::Instant;

use actix_web::cookie::Cookie;
use actix_web::cookie::time::Duration;
use actix_web::{HttpRequest, HttpResponse, web};
use billing_console::Fields;
use billing_console::page::openid as pages;
use billing_domain::id::UserId;
use billing_domain::user::{SignInAttempt, User};

use super::openid_failed::Failed;
use super::openid_user;
use super::session::{SENT, Visitor, begin};
use super::sign_in::{add_cookie, destination};
use super::{Console, nothing, reply};
use crate::app::App;
use crate::caller::KeyText;
use crate::error::ApiError;
use crate::openid::{Account, Provider, ProviderFailure, Secrets};
use crate::request_id;

/// How long somebody waits for one of the conversations with the provider that may be had at once.
const TURN_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

/// `GET /console/oidc/sign-in/`
pub async fn start(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    let Some(provider) = console.provider.clone() else { return nothing(request, app, console).await };
    let to = destination(&Fields::parse(request.query_string()));
    match send(&request, &app, &console, None, to).await {
        Ok((url, cookie)) => {
            let mut answer = reply::go(&url);
            add_cookie(&mut answer, &cookie);
            answer
        }
        Err(failed) => failed.page(&provider),
    }
}

/// Notes that this browser is sent to the provider: where, and the cookie by which it is known when it comes back.
pub(super) async fn send(
    request: &HttpRequest,
    app: &web::Data<App>,
    console: &Console,
    linking: Option<UserId>,
    to: String,
) -> Result<(String, Cookie<'static>), Failed> {
    let way = console.way(app, request);
    if !console.throttle.may_come(way.address, Instant::now()) {
        return Err((&pages::TOO_MANY).into());
    }
    let key = KeyText::generate().map_err(ApiError::internal)?;
    let secrets = Secrets::of(&app.pepper, &key);
    let url = converse(console, move |provider| provider.authorization_url(&secrets)).await?;
    let fingerprint = app.pepper.fingerprint(&key);
    app.block(None, move |backend| Ok(backend.begin_attempt(&fingerprint, linking, &to)?)).await?;
    let mut cookie = SENT.with(&key, way.is_encrypted);
    cookie.set_max_age(Duration::seconds(SignInAttempt::LASTS.whole_seconds()));
    Ok((url, cookie))
}

/// Has a word with the provider, on a thread that may wait for it.
async fn converse<T: Send + 'static>(
    console: &Console,
    talk: impl FnOnce(&Provider) -> Result<T, ProviderFailure> + Send + 'static,
) -> Result<T, Failed> {
    let provider = console.provider.clone().ok_or(&pages::EXPIRED)?;
    let turn = tokio::time::timeout(TURN_WAIT, provider.turns.clone().acquire_owned()).await;
    let turn = turn.ok().and_then(Result::ok).ok_or(&pages::BUSY)?;
    let request = request_id::carried();
    let talked = web::block(move || {
        // Held until it is over, even when nobody waits for it any more.
        let _turn = turn;
        request_id::within(request, || talk(&provider))
    });
    Ok(talked.await.map_err(|_| ApiError::internal("a conversation with the provider panicked"))??)
}

/// `GET /console/oidc/callback/`
pub async fn callback(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    let Some(provider) = console.provider.clone() else { return nothing(request, app, console).await };
    let (attempt, secrets) = match take(&request, &app, &console).await {
        Ok(taken) => taken,
        // Whoever was sent and is still waited for keeps the cookie: somebody else's link ends nothing.
        Err(failed) => return failed.page(&provider),
    };
    let finished = finish(&request, &app, &console, attempt, secrets).await;
    let mut answer = finished.unwrap_or_else(|failed| failed.page(&provider));
    add_cookie(&mut answer, &SENT.gone(console.way(&app, &request).is_encrypted));
    answer
}

/// The attempt of the browser that comes back, which nobody else can come back by from now on.
async fn take(
    request: &HttpRequest,
    app: &web::Data<App>,
    console: &Console,
) -> Result<(SignInAttempt, Secrets), Failed> {
    let key = SENT.of(request, console.way(app, request).is_encrypted).ok_or(&pages::EXPIRED)?;
    let secrets = Secrets::of(&app.pepper, &key);
    if !secrets.has_state(Fields::parse(request.query_string()).get("state").unwrap_or_default()) {
        return Err((&pages::EXPIRED).into());
    }
    let prefix = key.prefix().to_owned();
    let taken = app.block(None, move |backend| Ok(backend.take_attempt(&prefix)?)).await?;
    let digest = taken.as_ref().map(|(attempt, _)| attempt.fingerprint.digest.clone()).unwrap_or_default();
    let is_right = app.pepper.matches(&key, &digest);
    let attempt = taken.filter(|(attempt, now)| is_right && !attempt.is_over(*now)).map(|(attempt, _)| attempt);
    Ok((attempt.ok_or(&pages::EXPIRED)?, secrets))
}

async fn finish(
    request: &HttpRequest,
    app: &web::Data<App>,
    console: &Console,
    attempt: SignInAttempt,
    secrets: Secrets,
) -> Result<HttpResponse, Failed> {
    let provider = console.provider.clone().ok_or(&pages::EXPIRED)?;
    let query = Fields::parse(request.query_string());
    match query.get("error") {
        Some("access_denied") => return Err((&pages::DENIED).into()),
        Some(_) => return Err((&pages::REFUSED).into()),
        None => {}
    }
    // Where a provider says in the answer which one it is (RFC 9207), it is this one.
    if query.get("iss").is_some_and(|issuer| issuer != provider.settings().issuer) {
        return Err((&pages::REFUSED).into());
    }
    let code = query.get("code").ok_or(&pages::REFUSED)?.to_owned();
    let account = converse(console, move |provider| provider.identify(&code, &secrets)).await?;
    let address = console.way(app, request).address;
    match attempt.linking {
        Some(user) => {
            let Visitor::Known(session) = Visitor::of(request, app, console).await else {
                return Err((&pages::NOT_SIGNED_IN).into());
            };
            if session.signed_in.session.user != user {
                return Err((&pages::NOT_SIGNED_IN).into());
            }
            session.note(request);
            openid_user::link(app, &session, &account.identity, address).await?;
        }
        None => {
            let user = openid_user::signed_in(app, &provider, &account, address).await?;
            let cookie = session_of(request, app, console, &user, &account).await?;
            console.throttle.came(address);
            let mut answer = reply::go(&attempt.destination);
            add_cookie(&mut answer, &cookie);
            return Ok(answer);
        }
    }
    console.throttle.came(address);
    Ok(reply::go(&attempt.destination))
}

/// A session of a user who has just come back, in the first organization that they belong to.
async fn session_of(
    request: &HttpRequest,
    app: &web::Data<App>,
    console: &Console,
    user: &User,
    account: &Account,
) -> Result<Cookie<'static>, Failed> {
    let email = account.email.as_deref().unwrap_or(&user.email);
    let membership = user.memberships.first().ok_or_else(|| Failed::of(&pages::NO_ROLE, email))?;
    let is_encrypted = console.way(app, request).is_encrypted;
    Ok(begin(request, app, is_encrypted, user.id, membership.organization).await?)
}
