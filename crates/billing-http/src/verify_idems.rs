//! Which events have not been received.

use actix_web::{HttpRequest, web};
use billing_domain::customer::CustomerId;
use billing_domain::id::CustomerKey;
use billing_domain::{FieldCode, FieldErrors};
use serde_json::Value;
use time::Duration;

use crate::app::App;
use crate::body::{INLINE_BYTES_MAX, RawBody, decode, parse_or_empty};
use crate::caller::Caller;
use crate::endpoint::{Endpoint, post};
use crate::error::ApiError;
use crate::json::known;
use crate::unknown_field;
use crate::wire::{FromJson, OneOrMany, body, view};

/// Largest body, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Most ids in one call.
const IDS_MAX: usize = 1_000;
const LOOKBACK_DAYS: u32 = 30;
const LOOKBACK_DAYS_MAX: u32 = 365;

/// The calls about received events.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        post("/api/verify_idems_received/", "Which idempotency ids have not been received", verify)
            .repeatable()
            .takes::<VerifyBody>()
            .answers::<VerifyView>(200),
    ]
}

body! {
    /// Ids to look for.
    VerifyBody {
        /// The ids, at most 1,000; a single text is one id.
        required idempotency_ids: OneOrMany,
        /// Looks only at this customer's events.
        optional customer_id: CustomerId,
        /// How many days back to look, at most 365; 30 when missing.
        optional number_days_lookback: u32,
    }
}

impl VerifyBody {
    fn read(request: &HttpRequest, value: Value) -> Result<Self, ApiError> {
        let unknown = unknown_field::of_body(request, &value);
        let body = known(Self::from_json(value), unknown)?;
        Ok(body.faults().finish(body)?)
    }

    /// What is wrong with its lengths and numbers.
    fn faults(&self) -> FieldErrors {
        let mut errors = FieldErrors::default();
        match self.idempotency_ids.0.len() {
            0 => errors.push("idempotency_ids", FieldCode::Empty, "This list may not be empty."),
            1..=IDS_MAX => {}
            _ => {
                let detail = format!("Ensure this list has no more than {IDS_MAX} elements.");
                errors.push("idempotency_ids", FieldCode::ListTooLong, detail);
            }
        }
        let lookback = "number_days_lookback";
        match self.number_days_lookback {
            Some(0) => errors.push(lookback, FieldCode::MinValue, "Ensure this value is at least 1."),
            Some(days) if days > LOOKBACK_DAYS_MAX => {
                errors.push(
                    lookback,
                    FieldCode::MaxValue,
                    format!("Ensure this value is at most {LOOKBACK_DAYS_MAX}."),
                );
            }
            _ => {}
        }
        errors
    }
}

view! {
    /// What was not found.
    VerifyView {
        /// `success`.
        status: &'static str,
        /// The ids that no event has, each once.
        ids_not_found: Vec<String>,
    }
}

/// `POST /api/verify_idems_received/`
async fn verify(
    app: web::Data<App>,
    caller: Caller,
    request: HttpRequest,
    body: RawBody<BODY_BYTES_MAX>,
) -> Result<web::Json<VerifyView>, ApiError> {
    let size = body.size();
    let read = move || parse_or_empty(&decode(body, BODY_BYTES_MAX)?);
    let value = match size {
        ..=INLINE_BYTES_MAX => read()?,
        _ => app.compute(Some(caller.organization), read).await?,
    };
    let body = VerifyBody::read(&request, value)?;
    let missing = app.read(&caller, move |tx, now| {
        let customer = body.customer_id.as_ref().map(|id| CustomerKey::derive(tx.organization(), id));
        let now = match customer {
            Some(customer) => tx.customers().now(customer)?,
            None => now,
        };
        let days = body.number_days_lookback.unwrap_or(LOOKBACK_DAYS);
        tx.events().missing(customer, &body.idempotency_ids.0, now - Duration::days(i64::from(days)))
    });
    Ok(web::Json(VerifyView { status: "success", ids_not_found: missing.await? }))
}
