//! Who looks: the cookie of a session, and the session that it opens.

use std::sync::Arc;

use actix_web::cookie::time::Duration;
use actix_web::cookie::{Cookie, SameSite};
use actix_web::http::header::USER_AGENT;
use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};
use billing_console::visit::escaped;
use billing_console::{Viewer, ViewerZone};
use billing_domain::api_key::KeyScopes;
use billing_domain::audit::Actor;
use billing_domain::id::{OrganizationId, UserId};
use billing_domain::user::SignedIn;

use super::form::{self, Form};
use super::{Console, reply};
use crate::app::App;
use crate::caller::{Caller, KeyText};
use crate::error::ApiError;
use crate::zone::IanaZone;

/// Longest name of a browser that is kept, in characters.
const BROWSER_CHARACTERS_MAX: usize = 120;

/// A cookie of ours, by its name where the way is encrypted and where it is not. With `__Host-` no other host can set or see it.
#[derive(Clone, Copy)]
pub struct Named {
    secure: &'static str,
    plain: &'static str,
    same_site: SameSite,
}

/// Opens a session. Sent along when somebody follows a link from elsewhere, but not with a form from there.
pub const SESSION: Named = Named { secure: "__Host-session", plain: "session", same_site: SameSite::Lax };
/// Before there is a session: what the forms to sign in with belong to.
pub const BEFORE: Named = Named { secure: "__Host-before", plain: "before", same_site: SameSite::Strict };

/// Who was sent to the provider. They come back by a link from there, with which it is sent along.
pub const SENT: Named = Named { secure: "__Host-openid", plain: "openid", same_site: SameSite::Lax };

impl Named {
    fn name(self, is_encrypted: bool) -> &'static str {
        if is_encrypted { self.secure } else { self.plain }
    }

    /// The key in the cookie of a request, if there is one.
    pub fn of(self, request: &HttpRequest, is_encrypted: bool) -> Option<KeyText> {
        KeyText::parse(request.cookie(self.name(is_encrypted))?.value())
    }

    /// The cookie with a key in it, gone when the browser is closed.
    pub fn with(self, key: &KeyText, is_encrypted: bool) -> Cookie<'static> {
        Cookie::build(self.name(is_encrypted), key.reveal().to_owned())
            .path("/")
            .http_only(true)
            .secure(is_encrypted)
            .same_site(self.same_site)
            .finish()
    }

    /// The cookie that takes it away.
    pub fn gone(self, is_encrypted: bool) -> Cookie<'static> {
        Cookie::build(self.name(is_encrypted), "")
            .path("/")
            .http_only(true)
            .secure(is_encrypted)
            .same_site(self.same_site)
            .max_age(Duration::ZERO)
            .finish()
    }
}

/// The form to sign in with.
const SIGN_IN: &str = "/console/sign-in/";

/// A session that is not over, and the key that opened it.
pub struct Session {
    /// What the store knows of it.
    pub signed_in: SignedIn,
    /// The key in its cookie.
    pub key: KeyText,
}

/// The zone in which its user reads instants; UTC where the database of zones does not know it.
fn zone_of(signed_in: &SignedIn) -> ViewerZone {
    let name = signed_in.timezone.as_ref().unwrap_or(&signed_in.organization_timezone);
    IanaZone::find(name).map_or_else(ViewerZone::default, |zone| ViewerZone::new(name, Arc::new(zone)))
}

/// Whoever sends a request.
pub enum Visitor {
    /// Somebody who is signed in.
    Known(Box<Session>),
    /// Nobody, or somebody whose session is over.
    Nobody,
    /// That could not be found out.
    Unclear(ApiError),
}

impl Visitor {
    /// Who sends this request, looked up now: a session that was ended opens nothing from then on.
    pub async fn of(request: &HttpRequest, app: &web::Data<App>, console: &Console) -> Self {
        Self::of_request(request, (app, console), true).await
    }

    /// The same of what no person does, but a page that is open: it keeps no session alive.
    pub async fn of_open_page(request: &HttpRequest, app: &web::Data<App>, console: &Console) -> Self {
        Self::of_request(request, (app, console), false).await
    }

    async fn of_request(request: &HttpRequest, (app, console): (&web::Data<App>, &Console), is_used: bool) -> Self {
        match SESSION.of(request, console.way(app, request).is_encrypted) {
            Some(key) => Self::find(app, key, is_used).await,
            None => Self::Nobody,
        }
    }

    /// Whose session a key opens now. Where it `is_used`, that is noted.
    pub async fn find(app: &web::Data<App>, key: KeyText, is_used: bool) -> Self {
        let prefix = key.prefix().to_owned();
        let (pepper, sent) = (app.pepper.clone(), key.clone());
        let found = app.block(None, move |backend| {
            let found = backend.find_session(&prefix)?.filter(|found| {
                pepper.matches(&sent, &found.session.fingerprint.digest) && !found.session.is_over(found.now)
            });
            // After the key was looked at: who knows but the part that may be shown keeps no session alive.
            if is_used && found.as_ref().is_some_and(|found| found.session.is_to_be_noted(found.now)) {
                backend.note_seen(&prefix)?;
            }
            Ok(found)
        });
        match found.await {
            Err(error) => Self::Unclear(error),
            Ok(Some(signed_in)) => Self::Known(Box::new(Session { signed_in, key })),
            Ok(None) => Self::Nobody,
        }
    }

    /// What is answered to somebody who is not signed in: where to do it, and where to go from there.
    pub fn into_sign_in(self, request: &HttpRequest) -> HttpResponse {
        if let Self::Unclear(error) = self {
            return actix_web::ResponseError::error_response(&error);
        }
        let is_to_be_found_again = request.method().is_safe() && request.uri().path() != "/console/";
        let here = request.uri().path_and_query().filter(|_| is_to_be_found_again).map(|uri| escaped(uri.as_str()));
        let form = here.map_or_else(|| SIGN_IN.to_owned(), |here| format!("{SIGN_IN}?to={here}"));
        if reply::is_part(request) { reply::lead(&form) } else { reply::go(&form) }
    }
}

impl Session {
    /// Who looks, as pages know them.
    pub fn viewer(&self, app: &App) -> Viewer {
        Viewer {
            email: self.signed_in.email.clone(),
            role: self.signed_in.membership.role,
            organization_name: self.signed_in.membership.organization_name.clone(),
            has_others: self.signed_in.has_others,
            zone: zone_of(&self.signed_in),
            form_token: form::token(&app.pepper, &self.key),
        }
    }

    /// [`Session::viewer`], out of a request.
    pub fn viewer_of(&self, request: &HttpRequest) -> Viewer {
        match request.app_data::<web::Data<App>>() {
            Some(app) => self.viewer(app),
            None => unreachable!("every request has the app"),
        }
    }

    /// Whether a form was made for this session.
    pub fn has_sent(&self, app: &App, form: &Form) -> bool {
        form::is_ours(form, &app.pepper, &self.key)
    }

    /// Tells the log whose request it is, by the part of the cookie that may be shown.
    pub fn note(&self, request: &HttpRequest) {
        request.extensions_mut().insert(self.caller());
    }

    /// Its user, as handlers know those who call.
    pub fn caller(&self) -> Caller {
        let SignedIn { session, email, membership, .. } = &self.signed_in;
        Caller {
            organization: membership.organization,
            key_prefix: self.key.prefix().to_owned(),
            actor: Actor::user(session.user, email),
            // What a user may is a matter of the role.
            scopes: KeyScopes::default(),
            claim: None,
            call: None,
            approved: None,
        }
    }
}

/// Has a session look at another organization of its user's, with a cookie of its own: so whatever was made for the old one, forms in
/// other tabs included, does nothing any more. `None` where the user does not belong.
pub async fn switch(
    session: &Session,
    app: &web::Data<App>,
    is_encrypted: bool,
    organization: OrganizationId,
) -> Result<Option<Cookie<'static>>, ApiError> {
    let key = KeyText::generate().map_err(ApiError::internal)?;
    let fingerprint = app.pepper.fingerprint(&key);
    let (user, prefix) = (session.signed_in.session.user, session.key.prefix().to_owned());
    let switched =
        app.block(None, move |backend| Ok(backend.switch_session(user, &prefix, &fingerprint, organization)?));
    Ok(switched.await?.then(|| SESSION.with(&key, is_encrypted)))
}

/// Begins a session, with a key that nobody has seen before; one that the browser had is ended.
pub async fn begin(
    request: &HttpRequest,
    app: &web::Data<App>,
    is_encrypted: bool,
    user: UserId,
    organization: OrganizationId,
) -> Result<Cookie<'static>, ApiError> {
    let key = KeyText::generate().map_err(ApiError::internal)?;
    let fingerprint = app.pepper.fingerprint(&key);
    let agent = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let browser: String = agent.chars().take(BROWSER_CHARACTERS_MAX).collect();
    let before = SESSION.of(request, is_encrypted);
    let pepper = app.pepper.clone();
    let begun = app.block(Some(organization), move |backend| {
        if let Some(before) = before
            && let Some(old) = backend.find_session(before.prefix())?
            && pepper.matches(&before, &old.session.fingerprint.digest)
        {
            backend.end_session(old.session.user, before.prefix())?;
        }
        Ok(backend.begin_session(&fingerprint, user, organization, &browser)?)
    });
    begun.await?;
    Ok(SESSION.with(&key, is_encrypted))
}
