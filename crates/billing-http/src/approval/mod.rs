//! What waits for a second person: looking at it, deciding about it, and withdrawing it.
//!
//! The calls that wait know nothing of it. Their workflow refuses what is above the organization's limit, and the one place where
//! changing transactions are begun (`App::write`) keeps the call instead of answering.

mod carry_out;

use actix_web::web;
use billing_domain::approval::{Approval, ApprovalState};
use billing_domain::id::ApprovalId;
use billing_domain::store::Page;
use billing_domain::workflow::{approve_request, conclude_approval, decline_approval, withdraw_approval};
use serde::{Serialize, Serializer};

use crate::answer::NoContent;
use crate::app::App;
use crate::approval_view::ApprovalView;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, Parameter, delete, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging};
use crate::path::PathParam;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::body;

const PARAMETERS: &[Parameter] =
    &[Parameter::optional("state", "Only those that stand so, such as `waiting`; all when missing.")];

/// The calls about requests for a second person.
pub fn endpoints() -> Vec<Endpoint> {
    const ONE: &str = "/api/approvals/{approval_id}/";
    vec![
        get("/api/approvals/", "List what waits for a second person, and what became of it, newest first", list)
            .parameters(PARAMETERS)
            .lists::<ApprovalView>(),
        get(ONE, "Show a request for a second person", show).answers::<ApprovalView>(200),
        delete(ONE, "Withdraw a request of one's own that waits", withdraw),
    ]
}

/// The calls by which people decide. No key reaches them: they are made by the console, inside this process.
pub fn decisions() -> Vec<Endpoint> {
    vec![
        post(
            "/api/approvals/{approval_id}/approve/",
            "Approve a request as another person, and make its call",
            approve,
        )
        .answers::<ApprovalView>(200)
        .repeatable(),
        post("/api/approvals/{approval_id}/decline/", "Decline a request as another person, for a reason", decline)
            .takes::<DeclineBody>()
            .answers::<ApprovalView>(200)
            .repeatable(),
    ]
}

body! {
    /// Why a request is declined.
    DeclineBody {
        /// The reason, for whoever asked.
        required reason: String,
    }
}

/// Which requests a list keeps.
struct ApprovalFilter(Option<ApprovalState>);

impl FromQuery for ApprovalFilter {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let state = query.optional("state");
        query.finish(state.map(Self))
    }
}

/// `GET /api/approvals/`
async fn list(
    app: web::Data<App>,
    caller: Caller,
    ApiQuery(ApprovalFilter(state)): ApiQuery<ApprovalFilter>,
    paging: Paging,
) -> Result<ListAnswer<ApprovalView>, ApiError> {
    let page = app.read(&caller, move |tx, now| {
        let Page { items, next } = tx.approvals().list(state, now, &paging.0)?;
        Ok(Page { items: items.iter().map(|approval| ApprovalView::new(approval, now)).collect(), next })
    });
    Ok(ListAnswer(page.await?))
}

/// `GET /api/approvals/{approval_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<ApprovalId>,
) -> Result<web::Json<ApprovalView>, ApiError> {
    let view = app.read(&caller, move |tx, now| Ok(ApprovalView::new(&tx.approvals().get(id)?, now)));
    Ok(web::Json(view.await?))
}

/// `DELETE /api/approvals/{approval_id}/`
async fn withdraw(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<ApprovalId>,
) -> Result<NoContent, ApiError> {
    let by = caller.actor.clone();
    app.on_catalog(&caller, move |tx, now| withdraw_approval(tx, id, &by, now).map(drop)).await?;
    Ok(NoContent)
}

/// An approved request, told as its view.
struct Decided {
    approval: Approval,
    view: ApprovalView,
}

impl Serialize for Decided {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.view.serialize(serializer)
    }
}

/// `POST /api/approvals/{approval_id}/approve/`
///
/// Three steps, each of its own: the decision is kept, the call is made under an idempotency key of the request's, and what came of it
/// is noted. Whoever dies in between leaves an approved request, and approving it once more goes on where that was.
async fn approve(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<ApprovalId>,
) -> Result<web::Json<ApprovalView>, ApiError> {
    let by = caller.actor.clone();
    let approval = app
        .on_catalog(&caller, move |tx, now| {
            let approval = approve_request(tx, id, &by, now)?;
            Ok(Decided { view: ApprovalView::new(&approval, now), approval })
        })
        .await?
        .approval;
    let outcome = carry_out::carry_out(&app, &caller, &approval).await?;
    let concluded = app.on_catalog(&caller, move |tx, now| {
        let approval = conclude_approval(tx, id, &outcome)?;
        Ok(ApprovalView::new(&approval, now))
    });
    Ok(web::Json(concluded.await?))
}

/// `POST /api/approvals/{approval_id}/decline/`
async fn decline(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<ApprovalId>,
    ApiJson(body): ApiJson<DeclineBody>,
) -> Result<web::Json<ApprovalView>, ApiError> {
    let by = caller.actor.clone();
    let declined = app.on_catalog(&caller, move |tx, now| {
        let approval = decline_approval(tx, id, (&by, &body.reason), now)?;
        Ok(ApprovalView::new(&approval, now))
    });
    Ok(web::Json(declined.await?))
}
