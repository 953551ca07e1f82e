//! The console: pages for people. Here is what needs the web server: cookies, sessions, forms and their tokens, signing in. What
//! the pages show is rendered by `billing-console`, which asks the API in this process for everything.

mod event_stream;
mod form;
mod identities;
mod in_process;
mod invitation;
mod openid;
mod openid_failed;
mod openid_user;
mod organization;
mod reply;
mod session;
mod sign_in;
mod sign_out;
mod throttle;
mod time_zone;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::guard::fn_guard;
use actix_web::http::Method;
use actix_web::{HttpRequest, HttpResponse, web};
use billing_console::{Failure, Outcome, Route, Visit, asset, layout};

use crate::app::App;
use crate::caller::KeyText;
use crate::client_address::{Way, way_of};
use crate::endpoint::Matched;
use crate::first_link::FirstLink;
use crate::openid::Provider;
use crate::request_id;
use crate::server_settings::ServerSettings;
use form::Form;
use in_process::{InProcess, OnBehalf};
use session::{Session, Visitor};
use throttle::Throttle;

pub use in_process::call_inside;

/// What all pages share.
pub struct Console {
    throttle: Throttle,
    first_link: Option<Arc<FirstLink>>,
    /// Whom people may sign in with beside their passwords.
    provider: Option<Arc<Provider>>,
    /// Two passwords are hashed at once: each takes 19 MB and a processor.
    hashing: tokio::sync::Semaphore,
}

impl Console {
    /// That of a server.
    pub fn new(settings: &ServerSettings) -> Self {
        Self {
            throttle: Throttle::default(),
            first_link: settings.first_link.clone(),
            provider: settings.openid.clone().map(|openid| Arc::new(Provider::new(openid))),
            hashing: tokio::sync::Semaphore::new(2),
        }
    }

    fn way(&self, app: &App, request: &HttpRequest) -> Way {
        way_of(request, &app.trusted_proxies, app.serves_tls)
    }
}

/// Where all pages are but the one at `/`.
const ROOT: &str = "/console";

/// Routes the pages. Comes before the API, whose page at `/` it takes the place of.
pub fn configure(config: &mut web::ServiceConfig, console: web::Data<Console>) {
    config.app_data(console).app_data(Rc::new(InProcess::default()));
    config.service(at("/").route(looking().to(home)));
    // Their paths are tried one after the other, many of them by a regular expression: a call of the API compares the beginning alone.
    config.service(web::scope(ROOT).configure(configure_pages));
}

fn configure_pages(config: &mut web::ServiceConfig) {
    config.service(at("/console").route(looking().to(home)));
    for (path, media_type, text) in asset::ALL {
        let served = move || async move { reply::asset(media_type, text) };
        config.service(at(path).route(looking().to(served)));
    }
    config.service(at("/console/sign-in/").route(looking().to(sign_in::ask)).route(web::post().to(sign_in::act)));
    let welcome = at("/console/welcome/{link}/");
    config.service(welcome.route(looking().to(sign_in::welcome)).route(web::post().to(sign_in::make_owner)));
    let invited = at("/console/invitation/{link}/");
    config.service(invited.route(looking().to(invitation::ask)).route(web::post().to(invitation::accept)));
    config.service(at("/console/oidc/sign-in/").route(looking().to(openid::start)));
    config.service(at("/console/oidc/callback/").route(web::get().to(openid::callback)));
    config.service(at("/console/identities/").route(looking().to(identities::ask)));
    config.service(at("/console/identities/link/").route(web::post().to(identities::link)));
    config.service(at("/console/identities/unlink/").route(web::post().to(identities::unlink)));
    config.service(at("/console/sign-out/").route(web::post().to(sign_out::sign_out)));
    config.service(at("/console/sessions/").route(looking().to(sign_out::sessions)));
    config.service(at("/console/sessions/{prefix}/").route(web::post().to(sign_out::end)));
    let time_zone = at("/console/time_zone/").route(looking().to(time_zone::ask));
    config.service(time_zone.route(web::post().to(time_zone::choose)));
    let organizations = at("/console/organizations/").route(looking().to(organization::ask));
    config.service(organizations.route(web::post().to(organization::switch)));
    config.service(at("/console/events/stream/").route(web::get().to(event_stream::stream)));
    let mut done: Vec<&str> = Vec::new();
    for Route { path, .. } in billing_console::table() {
        if !done.contains(path) {
            done.push(path);
            config.service(at(path).route(looking().to(look)).route(web::post().to(act)));
        }
    }
    config.service(web::resource("/{rest:.*}").app_data(Matched("/console/*")).to(nothing));
}

fn at(path: &'static str) -> actix_web::Resource {
    web::resource(path.strip_prefix(ROOT).unwrap_or(path)).app_data(Matched(path))
}

fn looking() -> actix_web::Route {
    web::route().guard(fn_guard(|context| matches!(context.head().method, Method::GET | Method::HEAD)))
}

/// `GET /`: the console, which leads to the form to sign in.
async fn home() -> HttpResponse {
    reply::go("/console/")
}

/// A page of somebody who is signed in.
async fn look(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    serve(&request, &app, &console, None).await
}

/// Something that somebody who is signed in does.
async fn act(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>, form: Form) -> HttpResponse {
    serve(&request, &app, &console, Some(form)).await
}

/// Where there is no page.
async fn nothing(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    match Visitor::of(&request, &app, &console).await {
        Visitor::Known(session) => failed(&session, &request, &Failure::not_found()),
        other => other.into_sign_in(&request),
    }
}

async fn serve(
    request: &HttpRequest,
    app: &web::Data<App>,
    console: &web::Data<Console>,
    form: Option<Form>,
) -> HttpResponse {
    // What a page asks for again by itself is asked for by no person.
    let visitor = match form.is_none() && reply::is_part(request) {
        true => Visitor::of_open_page(request, app, console).await,
        false => Visitor::of(request, app, console).await,
    };
    let session = match visitor {
        Visitor::Known(session) => session,
        other => return other.into_sign_in(request),
    };
    session.note(request);
    match outcome(request, app, &session, form).await {
        Ok(Outcome::Page(title, content)) => {
            reply::html(200, layout::page(&session.viewer(app), request.path(), &title, &content))
        }
        Ok(Outcome::Csv(name, text)) => reply::csv(&name, text),
        Ok(Outcome::Go(to)) => reply::go(&to),
        Err(failure) => match failure.approval_path() {
            Some(path) => reply::go(&path),
            None => failed(&session, request, &failure),
        },
    }
}

async fn outcome(
    request: &HttpRequest,
    app: &web::Data<App>,
    session: &Session,
    form: Option<Form>,
) -> Result<Outcome, Failure> {
    let method = if form.is_some() { billing_console::Method::Post } else { billing_console::Method::Get };
    let Matched(path) = *request.app_data::<Matched>().ok_or_else(Failure::not_found)?;
    let on_path = || billing_console::table().iter().filter(|route| route.path == path);
    let Some(route) = on_path().find(|route| route.method == method) else {
        return Err(Failure::new(405, "method_not_allowed", billing_console::text::FORM_IS_BROKEN));
    };
    let form = form.unwrap_or_default();
    if method == billing_console::Method::Post && !session.has_sent(app, &form) {
        return Err(Failure::new(403, "forbidden", billing_console::text::FORM_IS_FOREIGN));
    }
    let role = session.signed_in.membership.role;
    if !route.roles.contains(&role) {
        return Err(Failure::forbidden());
    }
    let api = request.app_data::<Rc<InProcess>>().ok_or_else(Failure::not_found)?;
    let organization = session.signed_in.membership.organization;
    app.note_request(organization);
    let address = way_of(request, &app.trusted_proxies, app.serves_tls).address.map(|address| address.to_string());
    let api = OnBehalf { api, app, caller: session.caller(), address, role };
    let viewer = session.viewer(app);
    let once = KeyText::generate().map_err(|_| Failure::new(500, "internal_error", ""))?;
    let visit = Visit {
        api: &api,
        viewer: &viewer,
        id: named_part(path, request.uri().path()),
        path: request.path().to_owned(),
        query: billing_console::Fields::parse(request.query_string()),
        form: form.0,
        once: once.reveal().to_owned(),
        asked: RefCell::default(),
    };
    Ok(visit.telling_calls((route.render)(&visit).await?))
}

/// The part of a path that stands where the pattern has a name in braces. Read from the path as it was sent: an id may have slashes
/// in it, which are escaped there.
fn named_part(pattern: &str, path: &str) -> String {
    let place = pattern.split('/').position(|part| part.starts_with('{'));
    let part = place.and_then(|place| path.split('/').nth(place));
    part.map(|part| billing_console::visit::unescaped(part, false)).unwrap_or_default()
}

/// A failure as a page, with the status that it has.
fn failed(session: &Session, request: &HttpRequest, failure: &Failure) -> HttpResponse {
    let (title, content) = layout::failure(failure, &request_id::current());
    reply::html(failure.status, layout::page(&session.viewer_of(request), request.path(), title, &content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_were_sent() {
        #[rustfmt::skip]
        let cases = [
            // pattern,                                  path,                               id,      why
            ("/console/customers/{customer_id}/",        "/console/customers/acme/",         "acme",  "plain"),
            ("/console/customers/{customer_id}/events/", "/console/customers/a%2Fb/events/", "a/b",   "with a slash"),
            ("/console/customers/{customer_id}/",        "/console/customers/a+b%20c/",      "a+b c", "a plus is a plus in a path"),
            ("/console/customers/",                      "/console/customers/",              "",      "no name, no id"),
        ];
        for (pattern, path, id, why) in cases {
            assert_eq!(named_part(pattern, path), id, "{why}");
        }
    }
}
