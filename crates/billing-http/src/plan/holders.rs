//! Who holds a plan version.

use actix_web::web;
use billing_domain::Error;
use billing_domain::id::{PlanVersionId, SubscriptionId};
use billing_domain::store::VersionHolder;

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get};
use crate::error::ApiError;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::wire::{CustomerBriefView, Instant, view};

/// The call about who holds a plan version.
pub fn endpoint() -> Endpoint {
    let summary = "List the running subscriptions to a plan version, by when they end";
    get("/api/plan_versions/{version_id}/holders/", summary, list).lists::<HolderView>()
}

view! {
    /// A running subscription to a plan version, and whose it is.
    HolderView {
        /// Whose.
        customer: CustomerBriefView,
        /// The subscription.
        subscription_id: SubscriptionId,
        /// The first instant inside.
        start_date: Instant,
        /// The last microsecond inside.
        end_date: Instant,
        /// Whether another follows when it ends.
        auto_renew: bool,
    }
}

impl From<VersionHolder> for HolderView {
    fn from(holder: VersionHolder) -> Self {
        Self {
            customer: (&holder).into(),
            subscription_id: holder.subscription,
            start_date: Instant(holder.period.start()),
            end_date: Instant(holder.period.last_instant()),
            auto_renew: holder.auto_renew,
        }
    }
}

/// `GET /api/plan_versions/{version_id}/holders/`
async fn list(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<PlanVersionId>,
    paging: Paging,
) -> Result<ListAnswer<HolderView>, ApiError> {
    let page = app.read(&caller, move |tx, now| {
        let version = tx.plans().get_version(id)?;
        // That of an add-on is none of a plan.
        tx.plans().get(version.plan)?;
        let holders = tx.plans().list_holders(id, now, &paging.0)?;
        map_page(holders, |holder| Ok::<_, Error>(holder.into()))
    });
    Ok(ListAnswer(page.await?))
}
