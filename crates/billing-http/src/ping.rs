//! Which organization a key speaks for.

use actix_web::web;
use billing_domain::id::OrganizationId;

use crate::caller::Caller;
use crate::endpoint::{Endpoint, get};
use crate::wire::view;

/// The calls about keys themselves.
pub fn endpoints() -> Vec<Endpoint> {
    vec![get("/api/ping/", "Which organization the key speaks for", ping).answers::<PingView>(200)]
}

view! {
    /// The caller.
    PingView {
        /// The organization that the key speaks for.
        organization_id: OrganizationId,
    }
}

async fn ping(caller: Caller) -> web::Json<PingView> {
    web::Json(PingView { organization_id: caller.organization })
}
