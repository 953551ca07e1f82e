//! The older forms of the two access checks, which existing clients still call.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use billing_domain::customer::CustomerId;
use billing_domain::id::{MetricId, PlanId};
use billing_domain::store::Transaction;
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::workflow::{
    CheckFeatureAccess, CheckMetricAccess, SubscriptionAccess, check_feature_access, check_metric_access,
};
use billing_domain::{Error, FieldCode, FieldError};
use time::OffsetDateTime;

use crate::app::App;
use crate::auth::Caller;
use crate::endpoint::{Endpoint, Parameter, get};
use crate::error::ApiError;
use crate::metric_access::MetricBriefView;
use crate::query::Query;
use crate::wire::{FilterView, Number, view};

const FILTERS: Parameter = Parameter::optional(
    "subscription_filters",
    "Considers only subscriptions that have all of these filters: a JSON list of objects with property_name and value.",
);

const METRIC_PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Who."),
    Parameter::optional("metric_id", "What; either this or event_name."),
    Parameter::optional("event_name", "All metrics that count events of this name; either this or metric_id."),
    FILTERS,
];

const FEATURE_PARAMETERS: &[Parameter] =
    &[Parameter::required("customer_id", "Who."), Parameter::required("feature_name", "What."), FILTERS];

/// The older calls about access.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/customer_metric_access/", "Usage and limits of each subscription (deprecated)", check_metric)
            .parameters(METRIC_PARAMETERS)
            .answers::<Vec<SubscriptionUsageView>>(200),
        get("/api/customer_feature_access/", "Which subscriptions have a feature (deprecated)", check_feature)
            .parameters(FEATURE_PARAMETERS)
            .answers::<Vec<FeatureGrantView>>(200),
    ]
}

/// Whose usage, of which metrics.
struct MetricQuestion {
    customer: CustomerId,
    metrics: Metrics,
    filters: SubscriptionFilters,
}

enum Metrics {
    One(MetricId),
    OfEvent(String),
}

impl FromRequest for MetricQuestion {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Query::parse(request.query_string()).and_then(|mut query| {
            let customer = query.required("customer_id");
            let (metric, event) = (query.optional("metric_id"), query.optional("event_name"));
            let filters = query.filters();
            let read = customer.zip(metric.zip(event)).zip(filters);
            let ((customer, named), filters) = query.finish(read)?;
            let metrics = match named {
                (Some(metric), None) => Metrics::One(metric),
                (None, Some(event)) => Metrics::OfEvent(event),
                _ => {
                    let detail = "Give either metric_id or event_name.";
                    return Err(ApiError::field("metric_id", FieldCode::Invalid, detail));
                }
            };
            Ok(Self { customer, metrics, filters })
        }))
    }
}

impl MetricQuestion {
    fn metrics(&self, tx: &mut dyn Transaction) -> Result<Vec<MetricId>, Error> {
        let event = match &self.metrics {
            Metrics::One(metric) => return Ok(vec![*metric]),
            Metrics::OfEvent(event) => event,
        };
        let all = tx.metrics().list()?.into_iter();
        let found: Vec<_> = all.filter(|metric| metric.event_name == *event).map(|metric| metric.id).collect();
        if found.is_empty() {
            let detail = "No metric counts events of this name.";
            return Err(FieldError::new("event_name", FieldCode::DoesNotExist, detail).into());
        }
        Ok(found)
    }

    fn answer(&self, tx: &mut dyn Transaction, now: OffsetDateTime) -> Result<Vec<SubscriptionUsageView>, Error> {
        let mut views: Vec<SubscriptionUsageView> = Vec::new();
        for metric in self.metrics(tx)? {
            let question = CheckMetricAccess { customer: self.customer.clone(), metric, filters: self.filters.clone() };
            let checked = check_metric_access(tx, &question, now)?;
            // One snapshot: every metric is checked against the same subscriptions, in the same order.
            if views.is_empty() {
                views = checked.subscriptions.iter().map(SubscriptionUsageView::empty).collect();
            }
            for (view, considered) in views.iter_mut().zip(&checked.subscriptions) {
                if considered.access.has_metric {
                    view.usage_per_component.push(ComponentUsageView::new((&checked.metric).into(), considered));
                }
            }
        }
        Ok(views)
    }
}

view! {
    /// What one subscription's components have used.
    SubscriptionUsageView {
        /// Its plan.
        plan_id: PlanId,
        /// Only events with all of these properties count.
        subscription_filters: Vec<FilterView>,
        /// Its components that were asked for.
        usage_per_component: Vec<ComponentUsageView>,
    }
}

view! {
    /// What one component has used.
    ComponentUsageView {
        /// The events that count.
        event_name: String,
        /// The metric's name.
        metric_name: String,
        /// The metric.
        metric_id: MetricId,
        /// Usage in the current reset interval.
        metric_usage: Number,
        /// Up to here usage is free; null: nothing is, or everything.
        metric_free_limit: Option<Number>,
        /// From here on there is no access; null: no limit.
        metric_total_limit: Option<Number>,
    }
}

impl SubscriptionUsageView {
    fn empty(considered: &SubscriptionAccess) -> Self {
        Self {
            plan_id: considered.plan.plan_id,
            subscription_filters: FilterView::list(&considered.subscription.filters),
            usage_per_component: Vec::new(),
        }
    }
}

impl ComponentUsageView {
    fn new(metric: MetricBriefView, considered: &SubscriptionAccess) -> Self {
        let MetricBriefView { metric_id, event_name, metric_name } = metric;
        let access = &considered.access;
        let free_limit = access.free_limit.as_ref().filter(|limit| **limit != 0);
        Self {
            event_name,
            metric_name,
            metric_id,
            metric_usage: (&access.usage).into(),
            metric_free_limit: free_limit.map(Into::into),
            metric_total_limit: access.total_limit.as_ref().map(Into::into),
        }
    }
}

view! {
    /// Whether one subscription has a feature.
    FeatureGrantView {
        /// The feature.
        feature_name: String,
        /// The subscription's plan.
        plan_id: PlanId,
        /// Its filters.
        subscription_filters: Vec<FilterView>,
        /// Whether it grants the feature.
        access: bool,
    }
}

/// Who, and a feature by name.
struct FeatureQuestion {
    customer: CustomerId,
    feature_name: String,
    filters: SubscriptionFilters,
}

impl FromRequest for FeatureQuestion {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Query::parse(request.query_string()).and_then(|mut query| {
            let (customer, name) = (query.required("customer_id"), query.required("feature_name"));
            let read = customer.zip(name).zip(query.filters());
            query.finish(read).map(|((customer, feature_name), filters)| Self { customer, feature_name, filters })
        }))
    }
}

impl FeatureQuestion {
    fn answer(&self, tx: &mut dyn Transaction, now: OffsetDateTime) -> Result<Vec<FeatureGrantView>, Error> {
        let feature = tx.features().list()?.into_iter().find(|feature| feature.name == self.feature_name);
        let feature = feature.ok_or_else(|| {
            FieldError::new("feature_name", FieldCode::DoesNotExist, "There is no feature of this name.")
        })?;
        let question =
            CheckFeatureAccess { customer: self.customer.clone(), feature: feature.id, filters: self.filters.clone() };
        let checked = check_feature_access(tx, &question, now)?;
        let grants = checked.subscriptions.iter().map(|(subscription, plan, access)| FeatureGrantView {
            feature_name: feature.name.clone(),
            plan_id: plan.plan_id,
            subscription_filters: FilterView::list(&subscription.filters),
            access: *access,
        });
        Ok(grants.collect())
    }
}

/// `GET /api/customer_metric_access/`
async fn check_metric(
    app: web::Data<App>,
    caller: Caller,
    question: MetricQuestion,
) -> Result<web::Json<Vec<SubscriptionUsageView>>, ApiError> {
    Ok(web::Json(app.read(&caller, move |tx, now| question.answer(tx, now)).await?))
}

/// `GET /api/customer_feature_access/`
async fn check_feature(
    app: web::Data<App>,
    caller: Caller,
    question: FeatureQuestion,
) -> Result<web::Json<Vec<FeatureGrantView>>, ApiError> {
    Ok(web::Json(app.read(&caller, move |tx, now| question.answer(tx, now)).await?))
}
