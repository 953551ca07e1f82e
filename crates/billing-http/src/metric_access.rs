//! May this customer use this metric now?

use std::time::Duration;

use actix_web::web;
use billing_domain::id::MetricId;
use billing_domain::invoice::PlanVersionBrief;
use billing_domain::metric::Metric;
use billing_domain::subscription::Subscription;
use billing_domain::workflow::{
    AccessQuestion, CheckMetricAccess, CheckedAccess, SubscriptionAccess, check_metric_access,
};

use crate::app::App;
use crate::caller::Bearer;
use crate::endpoint::{Endpoint, Parameter, get};
use crate::error::ApiError;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{CustomerBriefView, FilterView, Instant, Number, PlanVersionBriefView, view};

/// How long an answer may take that is given together with those of others.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

const PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Who."),
    Parameter::required("metric_id", "What."),
    Parameter::list(
        "subscription_filters",
        "Considers only subscriptions that have all of these filters: a JSON list of objects with property_name and value.",
    ),
];

/// The calls about access.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/metric_access/", "Whether a customer may use a metric now", check)
            .for_bearers()
            .parameters(PARAMETERS)
            .answers::<MetricAccessView>(200),
    ]
}

/// The question, out of a query string.
struct Question(CheckMetricAccess);

impl FromQuery for Question {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let (customer, metric) = (query.required("customer_id"), query.required("metric_id"));
        let read = match (customer, metric, query.filters()) {
            (Some(customer), Some(metric), Some(filters)) => {
                Some(Self(CheckMetricAccess { customer, metric, filters }))
            }
            _ => None,
        };
        query.finish(read)
    }
}

view! {
    /// Whether a customer may use a metric, and why.
    MetricAccessView {
        /// Who.
        customer: CustomerBriefView,
        /// Whether they may.
        access: bool,
        /// What.
        metric: MetricBriefView,
        /// Every subscription considered.
        access_per_subscription: Vec<SubscriptionAccessView>,
    }
}

view! {
    /// A metric as others refer to it.
    MetricBriefView {
        /// Its id.
        metric_id: MetricId,
        /// The events that count.
        event_name: String,
        /// Its name.
        metric_name: String,
    }
}

view! {
    /// What one subscription says.
    SubscriptionAccessView {
        /// The subscription.
        subscription: AccessSubscriptionView,
        /// Whether its plan has the metric. Where not, it has no say in the access, and its usage and limits are 0.
        has_metric: bool,
        /// Usage in the current reset interval.
        metric_usage: Number,
        /// Up to here usage is free; null: without end.
        metric_free_limit: Option<Number>,
        /// From here on there is no access; null: no limit.
        metric_total_limit: Option<Number>,
    }
}

view! {
    /// A subscription that was considered.
    AccessSubscriptionView {
        /// The first instant inside.
        start_date: Instant,
        /// The last microsecond inside.
        end_date: Instant,
        /// Only events with all of these properties count.
        subscription_filters: Vec<FilterView>,
        /// To what.
        plan: PlanVersionBriefView,
    }
}

impl From<&Metric> for MetricBriefView {
    fn from(metric: &Metric) -> Self {
        Self { metric_id: metric.id, event_name: metric.event_name.clone(), metric_name: metric.name.clone() }
    }
}

impl AccessSubscriptionView {
    /// A subscription as of now, and its plan version.
    pub fn new(subscription: &Subscription, plan: &PlanVersionBrief) -> Self {
        Self {
            start_date: Instant(subscription.period.start()),
            end_date: Instant(subscription.period.last_instant()),
            subscription_filters: FilterView::list(&subscription.filters),
            plan: plan.into(),
        }
    }
}

impl From<&SubscriptionAccess> for SubscriptionAccessView {
    fn from(considered: &SubscriptionAccess) -> Self {
        let access = &considered.access;
        Self {
            subscription: AccessSubscriptionView::new(&considered.subscription, &considered.plan),
            has_metric: access.has_metric,
            metric_usage: (&access.usage).into(),
            metric_free_limit: access.free_limit.as_ref().map(Into::into),
            metric_total_limit: access.total_limit.as_ref().map(Into::into),
        }
    }
}

impl From<&CheckedAccess> for MetricAccessView {
    fn from(checked: &CheckedAccess) -> Self {
        Self {
            customer: (&checked.customer).into(),
            access: checked.access,
            metric: (&checked.metric).into(),
            access_per_subscription: checked.subscriptions.iter().map(Into::into).collect(),
        }
    }
}

/// `GET /api/metric_access/`
async fn check(
    app: web::Data<App>,
    bearer: Bearer,
    ApiQuery(Question(question)): ApiQuery<Question>,
) -> Result<web::Json<MetricAccessView>, ApiError> {
    let (organization, command) = (bearer.organization(), question.clone());
    let asked = app.ask_within(ANSWER_WAIT, |store, reply| {
        store.ask(bearer.requester(), Box::new(AccessQuestion::new(organization, command, reply)));
    });
    let checked = match asked.await? {
        Some(checked) => {
            bearer.was_confirmed();
            checked
        }
        // Apart, since it is rare, and what it needs would be room that is moved about for every check.
        None => Box::pin(check_alone(&app, &bearer, question)).await?,
    };
    Ok(web::Json(MetricAccessView::from(&checked)))
}

/// The check in a transaction of its own.
async fn check_alone(app: &App, bearer: &Bearer, question: CheckMetricAccess) -> Result<CheckedAccess, ApiError> {
    app.read(&bearer.caller(app).await?, move |tx, now| check_metric_access(tx, &question, now)).await
}
