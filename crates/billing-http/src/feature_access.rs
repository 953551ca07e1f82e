//! Does this customer have this feature now?

use actix_web::web;
use billing_domain::workflow::{CheckFeatureAccess, CheckedFeature, check_feature_access};

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, Parameter, get};
use crate::error::ApiError;
use crate::feature::FeatureView;
use crate::metric_access::AccessSubscriptionView;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{CustomerBriefView, view};

const PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Who."),
    Parameter::required("feature_id", "What."),
    Parameter::list(
        "subscription_filters",
        "Considers only subscriptions that have all of these filters: a JSON list of objects with property_name and value.",
    ),
];

/// The calls about features that a customer has.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/feature_access/", "Whether a customer has a feature now", check)
            .parameters(PARAMETERS)
            .answers::<FeatureAccessView>(200),
    ]
}

/// The question, out of a query string.
struct Question(CheckFeatureAccess);

impl FromQuery for Question {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let (customer, feature) = (query.required("customer_id"), query.required("feature_id"));
        let read = match (customer, feature, query.filters()) {
            (Some(customer), Some(feature), Some(filters)) => {
                Some(Self(CheckFeatureAccess { customer, feature, filters }))
            }
            _ => None,
        };
        query.finish(read)
    }
}

view! {
    /// Whether a customer has a feature, and why.
    FeatureAccessView {
        /// Who.
        customer: CustomerBriefView,
        /// Whether one of the subscriptions grants it.
        access: bool,
        /// What.
        feature: FeatureView,
        /// Every subscription considered.
        access_per_subscription: Vec<SubscriptionFeatureView>,
    }
}

view! {
    /// What one subscription says of a feature.
    SubscriptionFeatureView {
        /// The subscription.
        subscription: AccessSubscriptionView,
        /// Whether it grants the feature.
        access: bool,
    }
}

impl From<&CheckedFeature> for FeatureAccessView {
    fn from(checked: &CheckedFeature) -> Self {
        let considered = checked.subscriptions.iter().map(|(subscription, plan, access)| SubscriptionFeatureView {
            subscription: AccessSubscriptionView::new(subscription, plan),
            access: *access,
        });
        Self {
            customer: (&checked.customer).into(),
            access: checked.access,
            feature: (&checked.feature).into(),
            access_per_subscription: considered.collect(),
        }
    }
}

/// `GET /api/feature_access/`
async fn check(
    app: web::Data<App>,
    caller: Caller,
    ApiQuery(Question(command)): ApiQuery<Question>,
) -> Result<web::Json<FeatureAccessView>, ApiError> {
    let checked = app.read(&caller, move |tx, now| check_feature_access(tx, &command, now)).await?;
    Ok(web::Json((&checked).into()))
}
