//! The time zone of whoever looks: their own, or the organization's.

use actix_web::{HttpRequest, HttpResponse, ResponseError, web};
use billing_console::page::time_zone::page;
use billing_console::{Failure, layout, text};
use billing_domain::timezone;

use super::form::Form;
use super::sign_out::known;
use super::{Console, failed, reply};
use crate::app::App;

const HERE: &str = "/console/time_zone/";

/// `GET /console/time_zone/`
pub async fn ask(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    let session = match known(&request, &app, &console, None).await {
        Ok(session) => session,
        Err(answer) => return answer,
    };
    let viewer = session.viewer(&app);
    let signed_in = &session.signed_in;
    let content = page(signed_in.timezone.as_deref(), &signed_in.organization_timezone, &viewer.form_token);
    reply::html(200, layout::page(&viewer, request.path(), text::YOUR_TIME_ZONE, &content))
}

/// `POST /console/time_zone/`
pub async fn choose(
    request: HttpRequest,
    app: web::Data<App>,
    console: web::Data<Console>,
    form: Form,
) -> HttpResponse {
    let session = match known(&request, &app, &console, Some(&form)).await {
        Ok(session) => session,
        Err(answer) => return answer,
    };
    let chosen = form.0.get("timezone").map(str::to_owned);
    if let Some(unknown) = chosen.as_deref().filter(|name| !timezone::is_known(name)) {
        let failure = Failure::new(400, "invalid", &timezone::unknown(unknown));
        return failed(&session, &request, &failure);
    }
    let user = session.signed_in.session.user;
    match app.block(None, move |backend| Ok(backend.set_timezone(user, chosen.as_deref())?)).await {
        Ok(_) => reply::go(HERE),
        Err(error) => error.error_response(),
    }
}
