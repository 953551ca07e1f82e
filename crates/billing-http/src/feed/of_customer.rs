//! What became true of a customer, newest first.

use actix_web::web;
use billing_domain::customer::CustomerId;
use billing_domain::id::CustomerKey;
use billing_domain::store::Page;

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get};
use crate::error::ApiError;
use crate::list::{ListAnswer, Paging};
use crate::message::{MessageView, views};
use crate::path::PathParam;

/// The call about what became true of a customer.
pub fn endpoint() -> Endpoint {
    get("/api/customers/{customer_id}/messages/", "List what became true of a customer, newest first", list)
        .lists::<MessageView>()
}

/// `GET /api/customers/{customer_id}/messages/`
async fn list(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<CustomerId>,
    paging: Paging,
) -> Result<ListAnswer<MessageView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        let key = CustomerKey::derive(tx.organization(), &id);
        tx.customers().get(key)?;
        let page = tx.messages().list_of(key, &paging.0)?;
        Ok::<_, billing_domain::Error>(Page { items: views(tx, page.items)?, next: page.next })
    });
    Ok(ListAnswer(page.await?))
}
