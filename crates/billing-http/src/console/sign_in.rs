//! Signing in, and the first user.

use std::time::Instant;

use actix_web::cookie::Cookie;
use actix_web::{HttpRequest, HttpResponse, ResponseError, web};
use billing_console::page::sign_in as pages;
use billing_console::{Fields, layout, text};
use billing_domain::text::check_email;
use billing_domain::user::{Role, User, normal_email};

use super::form::{self, Form};
use super::session::{BEFORE, begin};
use super::{Console, reply};
use crate::app::App;
use crate::caller::KeyText;
use crate::error::ApiError;
use crate::password;

/// A form of somebody who is not signed in: what it carries, and the cookie that it belongs to.
pub(super) struct Blank {
    pub(super) token: String,
    pub(super) cookie: Cookie<'static>,
}

impl Blank {
    /// One that goes on with the browser's cookie, so that two open forms do not spoil each other.
    pub(super) fn new(request: &HttpRequest, app: &App, is_encrypted: bool) -> Result<Self, ApiError> {
        let key = match BEFORE.of(request, is_encrypted) {
            Some(key) => key,
            None => KeyText::generate().map_err(ApiError::internal)?,
        };
        Ok(Self { token: form::token(&app.pepper, &key), cookie: BEFORE.with(&key, is_encrypted) })
    }
}

/// Whether a form was made for this browser.
pub(super) fn is_ours(request: &HttpRequest, app: &App, is_encrypted: bool, form: &Form) -> bool {
    BEFORE.of(request, is_encrypted).is_some_and(|key| form::is_ours(form, &app.pepper, &key))
}

/// Where to go once one is signed in: a page of the console that was asked for, and nothing that leads elsewhere.
pub(super) fn destination(query: &Fields) -> String {
    let asked = query.get("to").unwrap_or_default();
    let is_page = asked.starts_with("/console/") && !asked.contains(['\\', '\r', '\n']) && !asked.contains("//");
    if is_page { asked.to_owned() } else { "/console/".to_owned() }
}

/// `GET /console/sign-in/`
pub async fn ask(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    page(&request, &app, &console, 200, "", None).await
}

async fn page(
    request: &HttpRequest,
    app: &web::Data<App>,
    console: &Console,
    status: u16,
    email: &str,
    wrong: Option<&str>,
) -> HttpResponse {
    let blank = match Blank::new(request, app, console.way(app, request).is_encrypted) {
        Ok(blank) => blank,
        Err(error) => return error.error_response(),
    };
    let to = destination(&Fields::parse(request.query_string()));
    let provider = console.provider.as_ref().map(|provider| provider.settings().host());
    let content = pages::form(&blank.token, &to, email, provider, wrong);
    let mut answer = reply::html(status, layout::bare(text::SIGN_IN, &content));
    add_cookie(&mut answer, &blank.cookie);
    answer
}

pub(super) fn add_cookie(answer: &mut HttpResponse, cookie: &Cookie<'_>) {
    if let Err(error) = answer.add_cookie(cookie) {
        log::error!(cause:% = error; "a cookie could not be written");
    }
}

/// `POST /console/sign-in/`
pub async fn act(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>, form: Form) -> HttpResponse {
    let way = console.way(&app, &request);
    let email = normal_email(form.0.get("email").unwrap_or_default());
    let password = form.0.0.iter().find(|(name, _)| name == "password").map(|(_, value)| value.clone());
    let password = password.unwrap_or_default();
    if !is_ours(&request, &app, way.is_encrypted, &form) {
        return page(&request, &app, &console, 403, &email, Some(text::FORM_IS_FOREIGN)).await;
    }
    if !console.throttle.may_try(way.address, &email, Instant::now()) {
        return page(&request, &app, &console, 429, &email, Some(text::TOO_MANY_TRIES)).await;
    }
    let user = match known(&app, &console, &email, password).await {
        Ok(Some(user)) => user,
        Ok(None) => return page(&request, &app, &console, 401, &email, Some(text::WRONG_PASSWORD)).await,
        Err(error) => return error.error_response(),
    };
    console.throttle.succeeded(way.address, &email);
    let Some(membership) = user.memberships.first() else {
        return page(&request, &app, &console, 403, &email, Some(text::NO_ORGANIZATION)).await;
    };
    match begin(&request, &app, way.is_encrypted, user.id, membership.organization).await {
        Ok(cookie) => {
            let mut answer = reply::go(&destination(&form.0));
            add_cookie(&mut answer, &cookie);
            add_cookie(&mut answer, &BEFORE.gone(way.is_encrypted));
            answer
        }
        Err(error) => error.error_response(),
    }
}

/// The user whose address and password these are.
pub(super) async fn known(
    app: &web::Data<App>,
    console: &Console,
    email: &str,
    password: String,
) -> Result<Option<User>, ApiError> {
    let address = email.to_owned();
    let found = app.block(None, move |backend| Ok(backend.find_user(&address)?)).await?;
    let hashed = found.as_ref().map(|user| user.password_hash.clone());
    let is_too_long = password.chars().count() > password::CHARACTERS_MAX;
    let _turn = console.hashing.acquire().await.map_err(ApiError::internal)?;
    let is_right = web::block(move || !is_too_long && password::is_right(&password, hashed.as_deref()));
    let is_right = is_right.await.map_err(|_| ApiError::internal("a password could not be looked at"))?;
    Ok(found.filter(|_| is_right))
}

/// The text of the link in a path.
pub(super) fn link_of(request: &HttpRequest) -> &str {
    request.match_info().get("link").unwrap_or_default()
}

/// `GET /console/welcome/{link}/`
pub async fn welcome(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    welcome_page(&request, &app, &console, 200, "", None)
}

fn welcome_page(
    request: &HttpRequest,
    app: &App,
    console: &Console,
    status: u16,
    email: &str,
    wrong: Option<&str>,
) -> HttpResponse {
    let is_open = console.first_link.as_ref().is_some_and(|link| link.is_open(link_of(request), Instant::now()));
    if !is_open {
        return reply::html(404, layout::bare(text::NOT_FOUND_TITLE, &pages::told(text::LINK_IS_OVER)));
    }
    let blank = match Blank::new(request, app, console.way(app, request).is_encrypted) {
        Ok(blank) => blank,
        Err(error) => return error.error_response(),
    };
    let content = pages::welcome(&blank.token, request.path(), email, wrong);
    let mut answer = reply::html(status, layout::bare(text::WELCOME, &content));
    add_cookie(&mut answer, &blank.cookie);
    answer
}

/// `POST /console/welcome/{link}/`
pub async fn make_owner(
    request: HttpRequest,
    app: web::Data<App>,
    console: web::Data<Console>,
    form: Form,
) -> HttpResponse {
    let way = console.way(&app, &request);
    let email = normal_email(form.0.get("email").unwrap_or_default());
    let password = form.0.0.iter().find(|(name, _)| name == "password").map(|(_, value)| value.clone());
    let password = password.unwrap_or_default();
    let again = |status, wrong| welcome_page(&request, &app, &console, status, &email, Some(wrong));
    if !is_ours(&request, &app, way.is_encrypted, &form) {
        return again(403, text::FORM_IS_FOREIGN);
    }
    if check_email(&email).is_err() {
        return again(400, text::EMAIL_IS_BAD);
    }
    if !password::is_acceptable(&password) {
        return again(400, text::PASSWORD_IS_SHORT);
    }
    let Some(link) = console.first_link.as_ref().filter(|link| link.take(link_of(&request), Instant::now())) else {
        return welcome_page(&request, &app, &console, 404, "", None);
    };
    let organization = link.organization;
    let (made, address) = (make(&app, &console, email.clone(), password, organization).await, email.clone());
    let found = match made {
        Ok(()) => app.block(None, move |backend| Ok(backend.find_user(&address)?)).await,
        Err(error) => Err(error),
    };
    let begun = match found {
        Ok(Some(user)) => begin(&request, &app, way.is_encrypted, user.id, organization).await,
        Ok(None) => Err(ApiError::internal("the user who was made is not there")),
        Err(error) => Err(error),
    };
    match begun {
        Ok(cookie) => {
            let mut answer = reply::go("/console/");
            add_cookie(&mut answer, &cookie);
            answer
        }
        Err(error) => error.error_response(),
    }
}

/// The hash of a new password, once it is its turn.
pub(super) async fn hashed(console: &Console, password: String) -> Result<String, ApiError> {
    let _turn = console.hashing.acquire().await.map_err(ApiError::internal)?;
    let hashed = web::block(move || password::hash(&password).map_err(|error| error.to_string())).await;
    hashed.map_err(ApiError::internal)?.map_err(ApiError::internal)
}

/// Makes the owner of an organization.
async fn make(
    app: &web::Data<App>,
    console: &Console,
    email: String,
    password: String,
    organization: billing_domain::id::OrganizationId,
) -> Result<(), ApiError> {
    let hashed = hashed(console, password).await?;
    let made = app
        .block(Some(organization), move |backend| Ok(backend.put_user(&email, &hashed, organization, Role::Owner)?));
    made.await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_elsewhere() {
        #[rustfmt::skip]
        let cases = [
            // asked for,                      led to,                  why
            ("/console/invoices/?status=paid", "/console/invoices/?status=paid", "a page of the console"),
            ("https://evil.example/",          "/console/",             "another site"),
            ("//evil.example/console/",        "/console/",             "another site, written shorter"),
            ("/console//evil.example",         "/console/",             "what some browsers take for one"),
            ("/console/\\evil.example",        "/console/",             "the same with a backslash"),
            ("/api/customers/",                "/console/",             "not a page"),
            ("",                               "/console/",             "nothing"),
        ];
        for (asked, led, why) in cases {
            let query = Fields(vec![("to".to_owned(), asked.to_owned())]);
            assert_eq!(destination(&query), led, "{asked}: {why}");
        }
    }
}
