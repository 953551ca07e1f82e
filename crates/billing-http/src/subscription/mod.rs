//! Subscriptions: a customer's hold on a plan version for one period.

mod addon;
mod body;
mod change;
mod matching;
mod spelling;
mod view;

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::web;
use billing_domain::customer::CustomerId;
use billing_domain::id::{CustomerKey, PlanId, SubscriptionId};
use billing_domain::subscription::{Subscription, SubscriptionFilters, SubscriptionStatus};
use billing_domain::workflow::{CreateSubscription, create_subscription, list_subscriptions};
use time::OffsetDateTime;

use crate::app::App;
use crate::caller::{Bearer, Caller};
use crate::endpoint::{Endpoint, Parameter, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{EndDate, Instant};
pub use addon::{AddonSubscriptionView, AttachBody, NamedAddon};
pub use change::{CancelBody, PrepaidChangeBody, SwitchBody, UpdateBody};
pub use view::{Holder, Names, SubscriptionView};

const LIST_PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Whose subscriptions."),
    Parameter::optional("plan_id", "Keeps those to any version of this plan."),
    Parameter::list("status", "List of `active`, `ended`, `not_started`; only active ones when missing."),
    Parameter::optional("range_start", "Keeps those that end at or after this instant."),
    Parameter::optional("range_end", "Keeps those that start at or before this instant, or on this day."),
    Parameter::list(
        "subscription_filters",
        "Keeps those that have all of these filters: a JSON list of objects with property_name and value.",
    ),
];

/// The calls about subscriptions.
pub fn endpoints() -> Vec<Endpoint> {
    let mut endpoints = vec![
        get("/api/subscriptions/", "List a customer's subscriptions", list)
            .for_bearers()
            .parameters(LIST_PARAMETERS)
            .lists::<SubscriptionView>(),
        post("/api/subscriptions/", "Create a subscription and invoice what is due at its start", create)
            .for_bearers()
            .takes::<CreateSubscription>()
            .answers::<SubscriptionView>(200),
        post("/api/subscriptions/add/", "Create a subscription (deprecated)", create)
            .deprecated()
            .for_bearers()
            .takes::<CreateSubscription>()
            .answers::<SubscriptionView>(200),
        get("/api/subscriptions/{subscription_id}/", "Show a subscription", show).answers::<SubscriptionView>(200),
    ];
    endpoints.extend(matching::endpoints());
    endpoints.extend(change::endpoints());
    endpoints.extend(addon::endpoints());
    endpoints
}

/// Which subscriptions a list keeps.
#[derive(Clone, Debug)]
struct SubscriptionFilter {
    customer: CustomerId,
    plan: Option<PlanId>,
    statuses: Vec<SubscriptionStatus>,
    range_start: Option<Instant>,
    range_end: Option<EndDate>,
    filters: SubscriptionFilters,
}

impl FromQuery for SubscriptionFilter {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let (customer, plan) = (query.required("customer_id"), query.optional("plan_id"));
        let (statuses, filters) = (query.list("status"), query.filters());
        let (range_start, range_end) = (query.optional("range_start"), query.optional("range_end"));
        let read = match (customer, plan, statuses, range_start, range_end, filters) {
            (Some(customer), Some(plan), Some(mut statuses), Some(range_start), Some(range_end), Some(filters)) => {
                if statuses.is_empty() {
                    statuses.push(SubscriptionStatus::Active);
                }
                Some(Self { customer, plan, statuses, range_start, range_end, filters })
            }
            _ => None,
        };
        query.finish(read)
    }
}

impl SubscriptionFilter {
    fn keeps(&self, subscription: &Subscription, now: OffsetDateTime) -> bool {
        !subscription.is_addon()
            && self.plan.is_none_or(|plan| subscription.plan == plan)
            && self.statuses.contains(&subscription.status(now))
            && self.range_start.is_none_or(|Instant(from)| subscription.period.last_instant() >= from)
            && self.range_end.is_none_or(|EndDate(to)| subscription.period.start() < to)
            && self.filters.is_subset_of(&subscription.filters)
    }
}

/// `GET /api/subscriptions/`
async fn list(
    app: web::Data<App>,
    bearer: Bearer,
    ApiQuery(filter): ApiQuery<SubscriptionFilter>,
    paging: Paging,
) -> Result<ListAnswer<SubscriptionView>, ApiError> {
    let holder = filter.customer.clone();
    let page = app.read_customer(&bearer, &holder, move |tx, now| {
        let key = CustomerKey::derive(tx.organization(), &filter.customer);
        let customer = tx.customers().get(key).map_err(|error| error.at_field("customer_id"))?;
        if let Some(plan) = filter.plan {
            tx.plans().get(plan).map_err(|error| error.at_field("plan_id"))?;
        }
        let mut listed = list_subscriptions(tx, &[key])?;
        let mut holder = Holder::of(&customer, &listed);
        let mut subscriptions = mem::take(&mut listed.all);
        subscriptions.retain(|subscription| filter.keeps(subscription, now));
        map_page(paging.cut(subscriptions)?, |subscription| holder.view(tx, &subscription))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/subscriptions/`
async fn create(
    app: web::Data<App>,
    bearer: Bearer,
    ApiJson(command): ApiJson<CreateSubscription>,
) -> Result<web::Json<SubscriptionView>, ApiError> {
    let customer = command.customer.clone();
    let is_catching_up = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&is_catching_up);
    let view = app.on_customer(&bearer, &customer, move |tx, now| {
        let new = create_subscription(tx, &command, now)?;
        noted.store(tx.customers().get(new.subscription.customer)?.catching_up, Ordering::Relaxed);
        SubscriptionView::of_new(tx, &new)
    });
    let view = view.await?;
    if is_catching_up.load(Ordering::Relaxed) {
        // When the customer lives by a clock; the billing run looks often enough by itself.
        app.clock_alarm.ring();
    }
    Ok(web::Json(view))
}

/// `GET /api/subscriptions/{subscription_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<SubscriptionId>,
) -> Result<web::Json<SubscriptionView>, ApiError> {
    let view = app.read(&caller, move |tx, _| {
        let customer = tx.subscriptions().customer_of(id)?;
        let subscription = tx.subscriptions().get(customer, id)?;
        SubscriptionView::new(tx, &subscription)
    });
    Ok(web::Json(view.await?))
}
