//! Changing and ending all subscriptions of a customer that a plan and filters choose. Deprecated: a call by id says which
//! one is meant.

use actix_web::{HttpRequest, web};
use billing_domain::customer::CustomerId;
use billing_domain::id::{CustomerKey, PlanId};
use billing_domain::store::Transaction;
use billing_domain::subscription::{InvoicingBehavior, Subscription, SwitchUsageBehavior};
use billing_domain::workflow::{
    CancelMatching, FindSubscriptions, MatchingChange, UpdateMatching, cancel_matching, update_matching,
};
use billing_domain::{Error, FieldErrors};

use super::change::CancelBody;
use super::view::{Holder, SubscriptionView};
use crate::app::App;
use crate::auth::Caller;
use crate::endpoint::{Endpoint, Parameter, post};
use crate::error::ApiError;
use crate::json::{Ask, Asked};
use crate::query::Query;
use crate::wire::{EndDate, FromJson, body};

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
            .parameters(CANCEL_PARAMETERS)
            .takes::<CancelBody>()
            .answers::<Vec<SubscriptionView>>(200),
        post(
            "/api/subscriptions/update/",
            "Change a customer's subscriptions to a plan, or switch them to another (deprecated)",
            update,
        )
        .parameters(UPDATE_PARAMETERS)
        .takes::<UpdateMatchingBody>()
        .answers::<Vec<SubscriptionView>>(200),
    ]
}

body! {
    /// What to change of all subscriptions that match: either another plan, or end and renewal.
    UpdateMatchingBody {
        /// The plan they are switched to.
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

/// Which of a customer's running and coming subscriptions a call is about; whether their plan must be named.
fn wanted(
    request: &HttpRequest,
    needs_plan: bool,
    errors: &mut FieldErrors,
) -> Result<Option<FindSubscriptions>, ApiError> {
    let mut query = Query::parse(request.query_string())?;
    let customer = query.required("customer_id").or_else(CustomerId::stand_in);
    let plan = if needs_plan { query.required("plan_id") } else { query.optional("plan_id").flatten() };
    let filters = query.filters().unwrap_or_default();
    errors.0.extend(query.into_errors().0);
    Ok(customer.map(|customer| FindSubscriptions { customer, plan, filters }))
}

impl Ask for CancelMatching {
    type Body = CancelBody;

    fn read(
        request: &HttpRequest,
        body: Option<CancelBody>,
        errors: &mut FieldErrors,
    ) -> Result<Option<Self>, ApiError> {
        let asked = wanted(request, false, errors)?.zip(body.map(CancelBody::options));
        Ok(asked.map(|(wanted, (cancellation, invoicing_behavior))| Self { wanted, cancellation, invoicing_behavior }))
    }
}

impl Ask for UpdateMatching {
    type Body = UpdateMatchingBody;

    fn read(
        request: &HttpRequest,
        body: Option<UpdateMatchingBody>,
        errors: &mut FieldErrors,
    ) -> Result<Option<Self>, ApiError> {
        let asked = wanted(request, true, errors)?.zip(body.map(UpdateMatchingBody::read));
        Ok(asked.map(|(wanted, change)| Self { wanted, change }))
    }
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

/// `POST /api/subscriptions/cancel/`
async fn cancel(
    app: web::Data<App>,
    caller: Caller,
    Asked(command): Asked<CancelMatching>,
) -> Result<web::Json<Vec<SubscriptionView>>, ApiError> {
    let customer = command.wanted.customer.clone();
    let shown = app.on_customer(&caller, &customer, move |tx, now| {
        let canceled = cancel_matching(tx, &command, now)?;
        views(tx, &command.wanted.customer, &canceled)
    });
    Ok(web::Json(shown.await?))
}

/// `POST /api/subscriptions/update/`
async fn update(
    app: web::Data<App>,
    caller: Caller,
    Asked(command): Asked<UpdateMatching>,
) -> Result<web::Json<Vec<SubscriptionView>>, ApiError> {
    let customer = command.wanted.customer.clone();
    let shown = app.on_customer(&caller, &customer, move |tx, now| {
        let updated = update_matching(tx, &command, now)?;
        views(tx, &command.wanted.customer, &updated)
    });
    Ok(web::Json(shown.await?))
}
