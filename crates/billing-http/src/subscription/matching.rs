//! Changing and ending all subscriptions of a customer that a plan and filters choose. Deprecated: a call by id says which
//! one is meant.

use actix_web::web;
use billing_domain::Error;
use billing_domain::customer::CustomerId;
use billing_domain::id::{CustomerKey, OrganizationId, PlanId};
use billing_domain::store::Transaction;
use billing_domain::subscription::{InvoicingBehavior, Subscription, SwitchUsageBehavior};
use billing_domain::workflow::{
    CancelMatching, FindSubscriptions, MatchingChange, UpdateMatching, cancel_matching, update_matching,
};

use super::change::{CancelBody, log_change};
use super::view::{Holder, SubscriptionView};
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, Parameter, post};
use crate::error::ApiError;
use crate::json::{FromQuery, QueryAndBody};
use crate::query::Query;
use crate::wire::{EndDate, body};

const FILTERS: Parameter = Parameter::list(
    "subscription_filters",
    "Only those that have all of these filters: a JSON list of objects with property_name and value.",
);

const CANCEL_PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Whose subscriptions."),
    Parameter::optional("plan_id", "Only those to any version of this plan; all of the customer's when missing."),
    FILTERS,
];

const UPDATE_PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Whose subscriptions."),
    Parameter::required("plan_id", "Only those to any version of this plan."),
    FILTERS,
];

/// The calls about subscriptions that match.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        post("/api/subscriptions/cancel/", "Cancel a customer's subscriptions (deprecated)", cancel)
            .deprecated()
            .parameters(CANCEL_PARAMETERS)
            .takes::<CancelBody>()
            .answers::<Vec<SubscriptionView>>(200),
        post(
            "/api/subscriptions/update/",
            "Change a customer's subscriptions to a plan, or switch them to another (deprecated)",
            update,
        )
        .deprecated()
        .parameters(UPDATE_PARAMETERS)
        .takes::<UpdateMatchingBody>()
        .answers::<Vec<SubscriptionView>>(200),
    ]
}

body! {
    /// What to change of all subscriptions that match: either another plan, or end and renewal.
    UpdateMatchingBody {
        /// Deprecated: switch each by its id. The plan they are switched to.
        optional replace_plan_id: PlanId,
        /// Whether the difference is invoiced now or at the end of the period; `invoice_now` when missing.
        optional invoicing_behavior: InvoicingBehavior,
        /// Whether usage goes on or stays with the old plan; `transfer_to_new_subscription` when missing.
        optional usage_behavior: SwitchUsageBehavior,
        /// Their new last moment.
        optional end_date: EndDate,
        /// Whether they stop renewing.
        optional turn_off_auto_renew: bool,
    }
}

impl UpdateMatchingBody {
    fn read(self) -> MatchingChange {
        match self.replace_plan_id {
            Some(plan) => MatchingChange::Plan {
                plan,
                invoicing_behavior: self.invoicing_behavior.unwrap_or_default(),
                usage_behavior: self.usage_behavior.unwrap_or_default(),
            },
            None => MatchingChange::End {
                end: self.end_date.map(|EndDate(end)| end),
                turn_off_auto_renew: self.turn_off_auto_renew.unwrap_or(false),
            },
        }
    }
}

/// Which of a customer's running and coming subscriptions are cancelled.
struct Cancelled(FindSubscriptions);

impl FromQuery for Cancelled {
    fn from_query(query: &mut Query) -> Option<Self> {
        wanted(query, |query| query.optional("plan_id")).map(Self)
    }
}

/// Which of a customer's running and coming subscriptions are changed: their plan must be named.
struct Changed(FindSubscriptions);

impl FromQuery for Changed {
    fn from_query(query: &mut Query) -> Option<Self> {
        wanted(query, |query| query.required("plan_id").map(Some)).map(Self)
    }
}

fn wanted(query: &mut Query, plan: fn(&mut Query) -> Option<Option<PlanId>>) -> Option<FindSubscriptions> {
    let (customer, plan, filters) = (query.required("customer_id"), plan(query), query.filters());
    Some(FindSubscriptions { customer: customer?, plan: plan?, filters: filters? })
}

/// Subscriptions of one customer, as answers show them.
fn views(
    tx: &mut dyn Transaction,
    customer: &CustomerId,
    subscriptions: &[Subscription],
) -> Result<Vec<SubscriptionView>, Error> {
    let key = CustomerKey::derive(tx.organization(), customer);
    let customer = tx.customers().get(key)?;
    let mut holder = Holder::load(tx, &customer)?;
    subscriptions.iter().map(|subscription| holder.view(tx, subscription)).collect()
}

fn log_changes(change: &str, organization: OrganizationId, customer: &CustomerId, shown: &[SubscriptionView]) {
    let key = CustomerKey::derive(organization, customer);
    shown.iter().for_each(|view| log_change(change, (organization, key), view.subscription_id));
}

/// `POST /api/subscriptions/cancel/`
async fn cancel(
    app: web::Data<App>,
    caller: Caller,
    QueryAndBody(Cancelled(wanted), body): QueryAndBody<Cancelled, CancelBody>,
) -> Result<web::Json<Vec<SubscriptionView>>, ApiError> {
    let (cancellation, invoicing_behavior) = body.options();
    let command = CancelMatching { wanted, cancellation, invoicing_behavior };
    let customer = command.wanted.customer.clone();
    let shown = app.on_customer(&caller, &customer, move |tx, now| {
        let canceled = cancel_matching(tx, &command, now)?;
        views(tx, &command.wanted.customer, &canceled)
    });
    let shown = shown.await?;
    log_changes("cancelled", caller.organization, &customer, &shown);
    Ok(web::Json(shown))
}

/// `POST /api/subscriptions/update/`
async fn update(
    app: web::Data<App>,
    caller: Caller,
    QueryAndBody(Changed(wanted), body): QueryAndBody<Changed, UpdateMatchingBody>,
) -> Result<web::Json<Vec<SubscriptionView>>, ApiError> {
    let is_switch = body.replace_plan_id.is_some();
    let command = UpdateMatching { wanted, change: body.read() };
    let customer = command.wanted.customer.clone();
    let shown = app.on_customer(&caller, &customer, move |tx, now| {
        let updated = update_matching(tx, &command, now)?;
        views(tx, &command.wanted.customer, &updated)
    });
    let shown = shown.await?;
    // A switch makes others, which the store tells.
    if !is_switch {
        log_changes("updated", caller.organization, &customer, &shown);
    }
    Ok(web::Json(shown))
}
