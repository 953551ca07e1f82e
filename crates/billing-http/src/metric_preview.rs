//! What a metric that nobody has made would make of a customer's events. Nothing is kept of it.

use actix_web::web;
use billing_domain::FieldErrors;
use billing_domain::customer::CustomerId;
use billing_domain::store::Transaction;
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::workflow::{CreateMetric, MeasuredUsage, PreviewMetric, UsageSpan, UsageWindow, preview_metric};

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::usage::{EndMoment, StartMoment, UsageWindowView};
use crate::wire::{body, read_through, view};
use crate::zone::IanaZone;

/// The call that tries a metric.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        post("/api/metrics/preview/", "Try a metric that is not made on a customer's events", preview)
            .takes::<PreviewMetric>()
            .repeatable()
            .answers::<MetricPreviewView>(200),
    ]
}

body! {
    /// A metric to be tried on a customer's events without being made.
    PreviewMetricBody {
        /// The metric, as `POST /api/metrics/` takes it.
        required metric: CreateMetric,
        /// Whose events.
        required customer_id: CustomerId,
        /// The first instant; a date alone begins at midnight in the time zone.
        required start: StartMoment,
        /// The first instant outside, at most 31 days later; a date alone ends with its day in the time zone. When missing, all up to and with the customer's now.
        optional end: EndMoment,
        /// Divides the time by hour, day or month on the zone's clocks; not divided when missing.
        optional window: UsageWindow,
        /// A name of the IANA database; the customer's own when missing.
        optional timezone: String,
        /// Counts only events that have all of these properties.
        optional subscription_filters: SubscriptionFilters,
    }
}

impl PreviewMetricBody {
    fn read(self) -> Result<PreviewMetric, FieldErrors> {
        let span = UsageSpan {
            customer: self.customer_id,
            filters: self.subscription_filters.unwrap_or_else(SubscriptionFilters::none),
            start: self.start.0,
            end: self.end.map(|EndMoment(end)| end),
            window: self.window,
            timezone: self.timezone,
        };
        Ok(PreviewMetric { metric: self.metric, span })
    }
}

read_through! { PreviewMetric = PreviewMetricBody; }

view! {
    /// What a metric that is not made would make of a customer's events.
    MetricPreviewView {
        /// Whose.
        customer_id: String,
        /// What it would be called.
        metric_name: String,
        /// In which zone windows begin.
        timezone: String,
        /// The whole time.
        total: UsageWindowView,
        /// The same, divided; the first and the last window may be cut short.
        windows: Vec<UsageWindowView>,
    }
}

impl From<&MeasuredUsage> for MetricPreviewView {
    fn from(measured: &MeasuredUsage) -> Self {
        Self {
            customer_id: measured.customer.id.as_str().to_owned(),
            metric_name: measured.metric.name.clone(),
            timezone: measured.timezone.clone(),
            total: (&measured.total).into(),
            windows: measured.windows.iter().map(Into::into).collect(),
        }
    }
}

/// `POST /api/metrics/preview/`
async fn preview(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(command): ApiJson<PreviewMetric>,
) -> Result<web::Json<MetricPreviewView>, ApiError> {
    let customer = command.span.customer.clone();
    let measure = move |tx: &mut dyn Transaction, now| preview_metric(tx, &command, now, IanaZone::find);
    let measured = app.read_customer(&caller, &customer, measure).await?;
    Ok(web::Json(MetricPreviewView::from(&measured)))
}
