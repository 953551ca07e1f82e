//! Which call a request makes, told to whoever handles it.

use std::sync::Arc;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, web};
use billing_console::visit::unescaped;

use super::key_check::vouched_address;
use crate::app::App;
use crate::client_address::way_of;
use crate::noted_call::{About, Call};

/// Tells the handler's caller which call this is.
///
/// # Errors
/// Those of the handler.
pub async fn carry(
    about: Arc<About>,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, actix_web::Error> {
    let named = request.match_info().get(about.named_by()).map(|part| unescaped(part, false));
    let address = vouched_address(&request).or_else(|| {
        let app = request.app_data::<web::Data<App>>()?;
        Some(way_of(request.request(), &app.trusted_proxies, app.serves_tls).address?.to_string())
    });
    request.extensions_mut().insert(Call::new(about, named, address));
    next.call(request).await
}
