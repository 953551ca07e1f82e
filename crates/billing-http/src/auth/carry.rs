//! Which call a request makes, told to whoever handles it.

use std::sync::Arc;

use actix_web::body::BoxBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, web};
use billing_console::visit::unescaped;

use super::key_check::vouched_address;
use crate::app::App;
use crate::body::receive_all;
use crate::client_address::way_of;
use crate::noted_call::{About, Call};

/// Tells the handler's caller which call this is, and what to keep of it where it may have to wait for a second person.
///
/// # Errors
/// Those of the handler.
pub async fn carry(
    (about, may_wait): (Arc<About>, bool),
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, actix_web::Error> {
    let named = request.match_info().get(about.named_by()).map(|part| unescaped(part, false));
    let address = vouched_address(&request).or_else(|| {
        let app = request.app_data::<web::Data<App>>()?;
        Some(way_of(request.request(), &app.trusted_proxies, app.serves_tls).address?.to_string())
    });
    let mut call = Call::new(about, named, address);
    if may_wait {
        let mut payload = request.take_payload();
        let body = match receive_all(request.request(), &mut payload).await {
            Ok(body) => body,
            Err(error) => return Ok(request.error_response(error)),
        };
        let text = std::str::from_utf8(&body).ok().filter(|text| !text.is_empty()).map(str::to_owned);
        let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
        call = call.keeping(request.method().to_string(), path, text);
        request.set_payload(Payload::from(body));
    }
    request.extensions_mut().insert(call);
    next.call(request).await
}
