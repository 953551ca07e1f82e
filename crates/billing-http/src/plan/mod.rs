//! Plans and their versions.

mod body;
mod change_body;
mod filter;
mod holders;
mod preview;
mod version_body;
mod version_view;
mod view;

use actix_web::web;
use billing_domain::id::{PlanId, PlanVersionId};
use billing_domain::workflow::{
    CreatePlan, CreatePlanVersion, NewPlanVersion, PreviewPlan, create_plan, create_plan_version, delete_plan,
    delete_plan_version, update_plan, update_plan_version,
};
use billing_domain::{Error, Noun};

use crate::answer::Created;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, Parameter, get, patch, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::query::ApiQuery;
use crate::wire::{Instant, view};
use change_body::{UpdatePlanBody, UpdatePlanVersionBody};
use filter::PlanFilter;
pub use filter::VersionFilter;
use preview::PlanPreviewView;
pub use version_body::{Fee, fees};
pub use version_view::{Catalog, ComponentView, PlanVersionView, RecurringChargeView};
pub use view::PlanView;

const CURRENCY: Parameter = Parameter::optional("version_currency_code", "Keeps versions with this currency.");
const CUSTOM: Parameter = Parameter::optional(
    "version_custom_type",
    "`custom_only`, `public_only` or `all` (default): versions with or without target customers.",
);
const STATUS: Parameter =
    Parameter::list("version_status", "List of `active`, `not_started`, `ended`; all three when missing.");
const VERSION_PARAMETERS: &[Parameter] = &[CURRENCY, CUSTOM, STATUS];
const LIST_PARAMETERS: &[Parameter] = &[
    Parameter::optional("duration", "Keeps plans of this duration: `monthly`, `quarterly`, `yearly`."),
    Parameter::list("include_tags", "Keeps plans with any of these tags."),
    Parameter::list("include_tags_all", "Keeps plans with all of these tags."),
    Parameter::list("exclude_tags", "Keeps plans with none of these tags."),
    CURRENCY,
    CUSTOM,
    STATUS,
];

/// The calls about plans.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/plans/", "List plans that have a matching version", list)
            .parameters(LIST_PARAMETERS)
            .lists::<PlanView>(),
        post("/api/plans/", "Create a plan", create).takes::<CreatePlan>().answers::<PlanView>(201),
        post("/api/plans/preview/", "Show what a plan would come to without making it", preview::show)
            .takes::<PreviewPlan>()
            .repeatable()
            .answers::<PlanPreviewView>(200),
        get("/api/plans/{plan_id}/", "Show a plan", show).parameters(VERSION_PARAMETERS).answers::<PlanView>(200),
        patch("/api/plans/{plan_id}/", "Change a plan", update).takes::<UpdatePlanBody>().answers::<PlanView>(200),
        post("/api/plans/{plan_id}/delete/", "Delete a plan that nobody is subscribed to", delete)
            .answers::<DeletedPlanView>(200),
        holders::endpoint(),
        patch("/api/plan_versions/{version_id}/", "Change a plan version", update_version)
            .takes::<UpdatePlanVersionBody>()
            .answers::<PlanVersionView>(200),
        post(
            "/api/plan_versions/{version_id}/delete/",
            "Delete a plan version that nobody is subscribed to",
            delete_version,
        )
        .answers::<PlanVersionView>(200),
        post("/api/plans/{plan_id}/versions/", "Create a version of a plan", create_version)
            .takes::<NewPlanVersion>()
            .answers::<PlanVersionView>(201),
    ]
}

view! {
    /// What is left of a deleted plan.
    DeletedPlanView {
        /// Its id, which names nothing any more.
        plan_id: PlanId,
        /// Its name.
        plan_name: String,
        /// When it was deleted.
        deleted: Instant,
    }
}

/// `GET /api/plans/`
async fn list(
    app: web::Data<App>,
    caller: Caller,
    ApiQuery(plans): ApiQuery<PlanFilter>,
    ApiQuery(versions): ApiQuery<VersionFilter>,
    paging: Paging,
) -> Result<ListAnswer<PlanView>, ApiError> {
    let page = app.read(&caller, move |tx, now| {
        versions.check(tx)?;
        let mut catalog = Catalog::load(tx, None, now)?;
        let matching = tx.plans().list()?.into_iter().filter(|plan| plans.keeps(plan));
        let matching = matching.filter(|plan| catalog.versions_of(plan.id).any(|version| versions.keeps(version, now)));
        let page = paging.cut(matching.collect())?;
        map_page(page, |plan| PlanView::new(tx, &mut catalog, &plan, &versions))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/plans/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(command): ApiJson<CreatePlan>,
) -> Result<Created<PlanView>, ApiError> {
    let view = app.on_catalog(&caller, move |tx, now| {
        let (plan, _) = create_plan(tx, &command, now)?;
        let mut catalog = Catalog::load(tx, Some(plan.id), now)?;
        PlanView::new(tx, &mut catalog, &plan, &VersionFilter::default())
    });
    Ok(Created(view.await?))
}

/// `GET /api/plans/{plan_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<PlanId>,
    ApiQuery(versions): ApiQuery<VersionFilter>,
) -> Result<web::Json<PlanView>, ApiError> {
    let view = app.read(&caller, move |tx, now| {
        let plan = tx.plans().get(id)?;
        versions.check(tx)?;
        let mut catalog = Catalog::load(tx, Some(id), now)?;
        let all = catalog.versions_of(id).count();
        if all > 0 && !catalog.versions_of(id).any(|version| versions.keeps(version, now)) {
            return Err(Error::NotFound(Noun::Plan));
        }
        PlanView::new(tx, &mut catalog, &plan, &versions)
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/plans/{plan_id}/versions/`
async fn create_version(
    app: web::Data<App>,
    caller: Caller,
    PathParam(plan): PathParam<PlanId>,
    ApiJson(version): ApiJson<NewPlanVersion>,
) -> Result<Created<PlanVersionView>, ApiError> {
    let command = CreatePlanVersion { plan, version };
    let view = app.on_catalog(&caller, move |tx, now| {
        let version = create_plan_version(tx, &command, now)?;
        let plan = tx.plans().get(command.plan)?;
        let mut catalog = Catalog::load(tx, Some(plan.id), now)?;
        PlanVersionView::new(tx, &mut catalog, &plan, &version)
    });
    Ok(Created(view.await?))
}

/// `PATCH /api/plans/{plan_id}/`
async fn update(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<PlanId>,
    ApiJson(body): ApiJson<UpdatePlanBody>,
) -> Result<web::Json<PlanView>, ApiError> {
    let command = body.read(id);
    let view = app.on_catalog(&caller, move |tx, now| {
        let plan = update_plan(tx, &command)?;
        let mut catalog = Catalog::load(tx, Some(plan.id), now)?;
        PlanView::new(tx, &mut catalog, &plan, &VersionFilter::default())
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/plans/{plan_id}/delete/`
async fn delete(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<PlanId>,
) -> Result<web::Json<DeletedPlanView>, ApiError> {
    let view = app.on_catalog(&caller, move |tx, now| {
        let plan = delete_plan(tx, id, now)?;
        Ok(DeletedPlanView { plan_id: plan.id, plan_name: plan.name, deleted: Instant(now) })
    });
    Ok(web::Json(view.await?))
}

/// `PATCH /api/plan_versions/{version_id}/`
async fn update_version(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<PlanVersionId>,
    ApiJson(body): ApiJson<UpdatePlanVersionBody>,
) -> Result<web::Json<PlanVersionView>, ApiError> {
    let command = body.read(id);
    let view = app.on_catalog(&caller, move |tx, now| {
        let version = update_plan_version(tx, &command, now)?;
        let plan = tx.plans().get(version.plan)?;
        let mut catalog = Catalog::load(tx, Some(plan.id), now)?;
        PlanVersionView::new(tx, &mut catalog, &plan, &version)
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/plan_versions/{version_id}/delete/`
async fn delete_version(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<PlanVersionId>,
) -> Result<web::Json<PlanVersionView>, ApiError> {
    let view = app.on_catalog(&caller, move |tx, now| {
        let version = delete_plan_version(tx, id, now)?;
        let plan = tx.plans().get(version.plan)?;
        let mut catalog = Catalog::load(tx, Some(plan.id), now)?;
        PlanVersionView::new(tx, &mut catalog, &plan, &version)
    });
    Ok(web::Json(view.await?))
}
