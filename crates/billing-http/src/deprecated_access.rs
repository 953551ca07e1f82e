//! The calls about access that existing clients still make; `metric_access` and `feature_access` say more.

use actix_web::web;
use billing_domain::id::{MetricId, PlanId};
use billing_domain::workflow::{
    BillableUsage, CheckFeatureAccess, ComponentUsage, ListBillableUsage, MeteredBy, check_feature_access,
    find_feature, list_billable_usage,
};
use billing_domain::{FieldCode, FieldError};

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, Parameter, get};
use crate::error::ApiError;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{FilterView, Number, view};

const FILTERS: Parameter = Parameter::list(
    "subscription_filters",
    "Considers only subscriptions that have all of these filters: a JSON list of objects with property_name and value.",
);

const METRIC_PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Who."),
    Parameter::optional("metric_id", "What; either this or `event_name`."),
    Parameter::optional("event_name", "Every metric of events of this name; either this or `metric_id`."),
    FILTERS,
];

const FEATURE_PARAMETERS: &[Parameter] =
    &[Parameter::required("customer_id", "Who."), Parameter::required("feature_name", "What, by its name."), FILTERS];

/// The deprecated calls about access.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/customer_metric_access/", "Deprecated: usage and limits by subscription", metric_access)
            .deprecated()
            .parameters(METRIC_PARAMETERS)
            .answers::<Vec<BillableUsageView>>(200),
        get("/api/customer_feature_access/", "Deprecated: a feature by subscription", feature_access)
            .deprecated()
            .parameters(FEATURE_PARAMETERS)
            .answers::<Vec<FeatureBySubscriptionView>>(200),
    ]
}

/// Which usage, out of a query string.
struct UsageQuestion(ListBillableUsage);

impl FromQuery for UsageQuestion {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let customer = query.required("customer_id");
        let which = (query.optional::<MetricId>("metric_id"), query.optional::<String>("event_name"));
        let filters = query.filters();
        let metered = match which {
            (Some(Some(metric)), Some(None)) => Some(MeteredBy::Metric(metric)),
            (Some(None), Some(Some(name))) => Some(MeteredBy::EventName(name)),
            (Some(_), Some(_)) => {
                query.refuse(FieldError::new("metric_id", FieldCode::Invalid, "Give either metric_id or event_name."));
                None
            }
            _ => None,
        };
        let read = match (customer, metered, filters) {
            (Some(customer), Some(metered), Some(filters)) => {
                Some(Self(ListBillableUsage { customer, metered, filters }))
            }
            _ => None,
        };
        query.finish(read)
    }
}

view! {
    /// The usage of one subscription.
    BillableUsageView {
        /// To which plan.
        plan_id: PlanId,
        /// Only events with all of these properties count.
        subscription_filters: Vec<FilterView>,
        /// What of it was asked for.
        usage_per_component: Vec<ComponentUsageView>,
    }
}

view! {
    /// The usage of one component.
    ComponentUsageView {
        /// The events that count.
        event_name: String,
        /// What it meters.
        metric_name: String,
        /// What it meters.
        metric_id: MetricId,
        /// Usage in the current reset interval as it would be billed.
        metric_usage: Number,
        /// Up to here usage is free; null: none is, or all.
        metric_free_limit: Option<Number>,
        /// From here on there is no access; null: no limit.
        metric_total_limit: Option<Number>,
    }
}

view! {
    /// Whether one subscription grants a feature.
    FeatureBySubscriptionView {
        /// What.
        feature_name: String,
        /// To which plan the subscription is.
        plan_id: PlanId,
        /// Only events with all of these properties count.
        subscription_filters: Vec<FilterView>,
        /// Whether it grants the feature.
        access: bool,
    }
}

impl From<&ComponentUsage> for ComponentUsageView {
    fn from(component: &ComponentUsage) -> Self {
        Self {
            event_name: component.metric.event_name.clone(),
            metric_name: component.metric.name.clone(),
            metric_id: component.metric.id,
            metric_usage: (&component.usage).into(),
            metric_free_limit: component.free_limit.as_ref().map(Into::into),
            metric_total_limit: component.total_limit.as_ref().map(Into::into),
        }
    }
}

impl From<&BillableUsage> for BillableUsageView {
    fn from(listed: &BillableUsage) -> Self {
        Self {
            plan_id: listed.plan.plan_id,
            subscription_filters: FilterView::list(&listed.subscription.filters),
            usage_per_component: listed.components.iter().map(Into::into).collect(),
        }
    }
}

/// `GET /api/customer_metric_access/`
async fn metric_access(
    app: web::Data<App>,
    caller: Caller,
    ApiQuery(UsageQuestion(question)): ApiQuery<UsageQuestion>,
) -> Result<web::Json<Vec<BillableUsageView>>, ApiError> {
    let listed = app.read(&caller, move |tx, now| list_billable_usage(tx, &question, now)).await?;
    Ok(web::Json(listed.iter().map(Into::into).collect()))
}

/// Which feature, out of a query string.
struct FeatureQuestion {
    customer: billing_domain::customer::CustomerId,
    name: String,
    filters: billing_domain::subscription::SubscriptionFilters,
}

impl FromQuery for FeatureQuestion {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let read = match (query.required("customer_id"), query.required("feature_name"), query.filters()) {
            (Some(customer), Some(name), Some(filters)) => Some(Self { customer, name, filters }),
            _ => None,
        };
        query.finish(read)
    }
}

/// `GET /api/customer_feature_access/`
async fn feature_access(
    app: web::Data<App>,
    caller: Caller,
    ApiQuery(question): ApiQuery<FeatureQuestion>,
) -> Result<web::Json<Vec<FeatureBySubscriptionView>>, ApiError> {
    let checked = app.read(&caller, move |tx, now| {
        let feature = find_feature(tx, &question.name)?.id;
        let (customer, filters) = (question.customer.clone(), question.filters.clone());
        check_feature_access(tx, &CheckFeatureAccess { customer, feature, filters }, now)
    });
    let checked = checked.await?;
    let views = checked.subscriptions.iter().map(|(subscription, plan, access)| FeatureBySubscriptionView {
        feature_name: checked.feature.name.clone(),
        plan_id: plan.plan_id,
        subscription_filters: FilterView::list(&subscription.filters),
        access: *access,
    });
    Ok(web::Json(views.collect()))
}
