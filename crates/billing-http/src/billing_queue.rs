//! The queue of the billing run: who is due, whose billing failed, and trying that again.

use actix_web::web;
use billing_domain::customer::CustomerId;
use billing_domain::id::CustomerKey;
use billing_domain::store::Queued;

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get, post};
use crate::error::ApiError;
use crate::path::PathParam;
use crate::wire::{Instant, view};

/// Most customers in an answer.
const SHOWN_MAX: u32 = 100;

/// The calls about the queue.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/billing_queue/", "Show whose billing is due or failed", list).answers::<BillingQueueView>(200),
        post("/api/billing_queue/{customer_id}/retry/", "Have a customer's billing tried again that failed", retry)
            .answers::<BillingRetryView>(200),
    ]
}

view! {
    /// Whose billing is due by now.
    BillingQueueView {
        /// At most 100: those that are left alone first, then those whose billing failed, then the others, each the longest overdue first.
        /// How many there are in all is in the overview.
        customers: Vec<QueuedView>,
    }
}

view! {
    /// A customer in real time whose billing is due.
    QueuedView {
        /// The caller's own id.
        customer_id: String,
        /// The earliest instant at which anything was due.
        due_at: Instant,
        /// How often in a row its billing has failed.
        failures: u32,
        /// Why it failed the last time; null when it did not since it was last billed.
        failure: Option<String>,
        /// Whether it is left alone, because it failed too often, until somebody has it tried again.
        is_parked: bool,
    }
}

view! {
    /// That a customer's billing is tried again.
    BillingRetryView {
        /// The caller's own id.
        customer_id: String,
        /// Whether its billing had failed; otherwise nothing was changed.
        had_failed: bool,
    }
}

impl From<Queued> for QueuedView {
    fn from(queued: Queued) -> Self {
        Self {
            customer_id: queued.customer.to_string(),
            due_at: Instant(queued.due_at),
            failures: queued.failures,
            failure: queued.failure,
            is_parked: queued.is_parked,
        }
    }
}

/// `GET /api/billing_queue/`
async fn list(app: web::Data<App>, caller: Caller) -> Result<web::Json<BillingQueueView>, ApiError> {
    let organization = caller.organization;
    let queued = app.block(Some(organization), move |backend| Ok(backend.billing_queue(organization, SHOWN_MAX)?));
    Ok(web::Json(BillingQueueView { customers: queued.await?.into_iter().map(Into::into).collect() }))
}

/// `POST /api/billing_queue/{customer_id}/retry/`
async fn retry(
    app: web::Data<App>,
    caller: Caller,
    PathParam(customer): PathParam<CustomerId>,
) -> Result<web::Json<BillingRetryView>, ApiError> {
    let id = customer.clone();
    let view = app.on_customer(&caller, &customer, move |tx, _| {
        let key = CustomerKey::derive(tx.organization(), &id);
        tx.customers().get(key)?;
        Ok(BillingRetryView { customer_id: id.to_string(), had_failed: tx.customers().retry_billing(key)? })
    });
    Ok(web::Json(view.await?))
}
