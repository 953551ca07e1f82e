//! Usage alerts: of what an organization wants to be told once it is reached.

use actix_web::{HttpResponse, web};
use billing_domain::FieldErrors;
use billing_domain::customer::CustomerId;
use billing_domain::id::{MetricId, PlanVersionId, UsageAlertId};
use billing_domain::usage_alert::{AlertKind, AlertUnit};
use billing_domain::workflow::{CreateUsageAlert, create_usage_alert};

use crate::answer::Created;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, delete, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::usage_alert_view::UsageAlertView;
use crate::wire::{Number, body, read_through};

/// The calls about usage alerts.
pub fn endpoints() -> Vec<Endpoint> {
    const ONE: &str = "/api/usage_alerts/{usage_alert_id}/";
    vec![
        get("/api/usage_alerts/", "List usage alerts, oldest first", list).lists::<UsageAlertView>(),
        post("/api/usage_alerts/", "Be told once a figure of a customer's reaches a threshold", create)
            .takes::<CreateUsageAlert>()
            .answers::<UsageAlertView>(201),
        get(ONE, "Show a usage alert", show).answers::<UsageAlertView>(200),
        delete(ONE, "Delete a usage alert", remove),
    ]
}

body! {
    /// A figure, and the threshold of which to be told.
    CreateUsageAlertBody {
        /// Which figure.
        required kind: AlertKind,
        /// Of which metric; needed for `metric_usage` and `prepaid_units`, and given for nothing else.
        optional metric_id: MetricId,
        /// Where it is reached: greater than 0; of what is left also 0.
        required threshold: Number,
        /// What the threshold is counted in; percents are for `metric_usage` alone. `absolute` when missing.
        optional unit: AlertUnit,
        /// In which currency `spend` and `credit_balance` are; the organization's default when missing.
        optional currency_code: String,
        /// About this customer alone.
        optional customer_id: CustomerId,
        /// About whoever holds this plan version alone. With neither it is about every customer.
        optional plan_version_id: PlanVersionId,
    }
}

impl CreateUsageAlertBody {
    fn read(self) -> Result<CreateUsageAlert, FieldErrors> {
        let Self { kind, metric_id, threshold: Number(threshold), unit, currency_code, customer_id, plan_version_id } =
            self;
        let command = CreateUsageAlert {
            kind,
            metric: metric_id,
            threshold,
            unit: unit.unwrap_or(AlertUnit::Absolute),
            currency_code,
            customer: customer_id,
            plan_version: plan_version_id,
        };
        command.check()?;
        Ok(command)
    }
}

read_through! { CreateUsageAlert = CreateUsageAlertBody; }

/// `GET /api/usage_alerts/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<UsageAlertView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        map_page(paging.cut(tx.usage_alerts().list()?)?, |alert| Ok(UsageAlertView::from(&alert)))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/usage_alerts/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(command): ApiJson<CreateUsageAlert>,
) -> Result<Created<UsageAlertView>, ApiError> {
    let view =
        app.on_catalog(&caller, move |tx, now| Ok(UsageAlertView::from(&create_usage_alert(tx, &command, now)?)));
    Ok(Created(view.await?))
}

/// `GET /api/usage_alerts/{usage_alert_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<UsageAlertId>,
) -> Result<web::Json<UsageAlertView>, ApiError> {
    let view = app.read(&caller, move |tx, _| Ok(UsageAlertView::from(&tx.usage_alerts().get(id)?)));
    Ok(web::Json(view.await?))
}

/// `DELETE /api/usage_alerts/{usage_alert_id}/`
async fn remove(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<UsageAlertId>,
) -> Result<HttpResponse, ApiError> {
    app.on_catalog(&caller, move |tx, _| tx.usage_alerts().delete(id)).await?;
    Ok(HttpResponse::NoContent().finish())
}
