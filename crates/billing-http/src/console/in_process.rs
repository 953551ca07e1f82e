//! The API, called inside this process by the pages: the same handlers, the same checks, the same answers as over HTTP. In place of
//! a key stands a user's session, which has been looked at.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use actix_http::{Payload, Request};
use actix_service::{IntoServiceFactory, Service, ServiceFactory};
use actix_web::HttpMessage;
use actix_web::body::{BoxBody, to_bytes_limited};
use actix_web::dev::{AppConfig, ServiceResponse};
use actix_web::http::header::{CONTENT_TYPE, HeaderValue, LINK};
use actix_web::http::{Method, Uri};
use actix_web::web::{self, Bytes};
use billing_console::permission;
use billing_console::{Answer, Api, Asking, Failure, Verb};
use billing_domain::user::Role;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::app::App;
use crate::auth::Vouched;
use crate::caller::Caller;
use crate::error::{ApiError, WAITING_STATUS};
use crate::idempotency::HEADER as IDEMPOTENCY_KEY;
use crate::{approval, endpoint, routes};

/// Largest answer that a page is made of.
const ANSWER_BYTES_MAX: usize = 16 << 20;

type Called = Pin<Box<dyn Future<Output = Result<ServiceResponse<BoxBody>, actix_web::Error>>>>;

/// All calls of the API, and those that only people make: made once for each thread that serves, when its first page is asked for.
#[derive(Default)]
pub struct InProcess(OnceCell<Rc<dyn Fn(Request) -> Called>>);

impl InProcess {
    async fn call(&self, app: &web::Data<App>, request: Request) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
        let calls = self.0.get_or_try_init(|| async {
            let calls = actix_web::App::new().app_data(app.clone());
            let calls = calls.configure(|config| {
                endpoint::configure(config, routes::table().into_iter().chain(approval::decisions()).collect());
            });
            let made = calls.into_factory().new_service(AppConfig::default()).await;
            let service = Rc::new(made.map_err(|()| ApiError::internal("the API could not be made for pages"))?);
            let call = move |request: Request| -> Called {
                let service = Rc::clone(&service);
                Box::pin(async move { service.call(request).await })
            };
            Ok::<_, actix_web::Error>(Rc::new(call) as Rc<dyn Fn(Request) -> Called>)
        });
        calls.await?(request).await
    }
}

/// Makes one call, of all that there are.
pub fn call_inside(app: web::Data<App>, request: Request) -> Called {
    Box::pin(async move { InProcess::default().call(&app, request).await })
}

/// The API on behalf of one user in one organization.
pub struct OnBehalf<'v> {
    /// What answers.
    pub api: &'v InProcess,
    /// What it shares with everybody.
    pub app: &'v web::Data<App>,
    /// Who asks, as handlers know them.
    pub caller: Caller,
    /// Where they called from.
    pub address: Option<String>,
    /// What they may.
    pub role: Role,
}

impl OnBehalf<'_> {
    async fn ask(&self, verb: Verb, path: &str, body: Option<(Value, String)>) -> Result<Answer, Failure> {
        if !permission::allows(self.role, verb, path) {
            return Err(Failure::forbidden());
        }
        let mut request = match &body {
            None => Request::new(),
            Some((value, _)) => {
                let text = if value.is_null() { String::new() } else { value.to_string() };
                Request::with_payload(Payload::from(Bytes::from(text)))
            }
        };
        let head = request.head_mut();
        head.method = match verb {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
            Verb::Patch => Method::PATCH,
            Verb::Delete => Method::DELETE,
        };
        head.uri = path.parse::<Uri>().map_err(|_| Failure::not_found())?;
        if let Some((value, once)) = &body {
            // The others come to the same, however often they are sent.
            if verb == Verb::Post {
                let once = HeaderValue::from_str(once).map_err(|_| Failure::not_found())?;
                head.headers.insert(IDEMPOTENCY_KEY, once);
            }
            if !value.is_null() {
                head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
        }
        request.extensions_mut().insert(Vouched { caller: self.caller.clone(), address: self.address.clone() });
        answer(self.api.call(self.app, request).await).await
    }
}

/// What came of a call.
async fn answer(called: Result<ServiceResponse<BoxBody>, actix_web::Error>) -> Result<Answer, Failure> {
    let broken = || Failure::new(500, "internal_error", "Something went wrong on our side.");
    let response = match called {
        Ok(response) => response.into_parts().1,
        Err(error) => error.error_response(),
    };
    let status = response.status().as_u16();
    let next = response.headers().get(LINK).and_then(|link| next_cursor(link.to_str().ok()?));
    let read = to_bytes_limited(response.into_body(), ANSWER_BYTES_MAX).await;
    let bytes = read.map_err(|_| broken())?.map_err(|_| broken())?;
    // What was taken away has nothing more to say.
    let value: Value =
        if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).map_err(|_| broken())? };
    if status == WAITING_STATUS
        && let Some(id) = value["approval_id"].as_str()
    {
        return Err(Failure::waiting(id));
    }
    if status < 400 {
        return Ok(Answer { value, next });
    }
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let faults = value["validation_errors"].as_array().into_iter().flatten();
    let faults = faults.map(|fault| (text(fault, "attr"), text(fault, "detail"))).collect();
    Err(Failure { status, code: text(&value, "title"), detail: text(&value, "detail"), faults })
}

/// The cursor in a `Link` header to the next part of a list.
fn next_cursor(link: &str) -> Option<String> {
    let target = link.strip_prefix('<')?.split_once('>')?.0;
    let query = target.split_once('?')?.1;
    billing_console::Fields::parse(query).get("cursor").map(str::to_owned)
}

impl Api for OnBehalf<'_> {
    fn get(&self, path: String) -> Asking<'_> {
        Box::pin(async move { self.ask(Verb::Get, &path, None).await })
    }

    fn send(&self, verb: Verb, path: String, body: Value, once: String) -> Asking<'_> {
        Box::pin(async move { self.ask(verb, &path, Some((body, once))).await })
    }
}
