//! Changing and ending subscriptions, by id or by customer, plan and filters.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use billing_domain::id::{CustomerKey, MetricId, PlanId, PlanVersionId, SubscriptionId};
use billing_domain::store::Transaction;
use billing_domain::subscription::{Cancellation, InvoicingBehavior, Subscription, SwitchUsageBehavior, UsageBehavior};
use billing_domain::workflow::{
    CancelSubscription, ChangePrepaidUnits, Faults, FindSubscriptions, SwitchPlan, UpdateSubscription, VersionChoice,
    cancel_subscription, change_prepaid_units, find_subscriptions, switch_plan, update_subscription,
};
use billing_domain::{Error, FieldCode, FieldError, FieldErrors, Noun};
use time::OffsetDateTime;
use uuid::Uuid;

use super::spelling::{FlatFee, InitialUnits, SwitchInvoicing};
use super::view::{Holder, SubscriptionView};
use crate::app::App;
use crate::auth::Caller;
use crate::endpoint::{Endpoint, Parameter, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::path::{PathPair, PathParam};
use crate::query::Query;
use crate::wire::{EndDate, FreeForm, Number, body, faultless};

const MATCH_PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Whose subscriptions."),
    Parameter::optional("plan_id", "Only those to any version of this plan; all of the customer's when missing."),
    Parameter::optional(
        "subscription_filters",
        "Only those that have all of these filters: a JSON list of objects with property_name and value.",
    ),
];

const MATCH_PLAN_PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Whose subscriptions."),
    Parameter::required("plan_id", "Only those to any version of this plan."),
    Parameter::optional(
        "subscription_filters",
        "Only those that have all of these filters: a JSON list of objects with property_name and value.",
    ),
];

/// The calls that change subscriptions.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        post("/api/subscriptions/cancel/", "Cancel a customer's subscriptions (deprecated)", cancel_matching)
            .parameters(MATCH_PARAMETERS)
            .takes::<CancelBody>()
            .answers::<Vec<SubscriptionView>>(200),
        post(
            "/api/subscriptions/update/",
            "Change a customer's subscriptions to a plan, or switch them to another (deprecated)",
            update_matching,
        )
        .parameters(MATCH_PLAN_PARAMETERS)
        .takes::<UpdateMatchingBody>()
        .answers::<Vec<SubscriptionView>>(200),
        post("/api/subscriptions/{subscription_id}/update/", "Change end, renewal or metadata", update)
            .takes::<UpdateBody>()
            .answers::<SubscriptionView>(200),
        post("/api/subscriptions/{subscription_id}/cancel/", "Cancel a subscription", cancel)
            .takes::<CancelBody>()
            .answers::<SubscriptionView>(200),
        post("/api/subscriptions/{subscription_id}/switch_plan/", "Switch a subscription to another plan", switch)
            .takes::<SwitchBody>()
            .answers::<SubscriptionView>(200),
        post(
            "/api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/",
            "Change how many units are paid for in advance",
            change_units,
        )
        .takes::<PrepaidChangeBody>()
        .answers::<SubscriptionView>(200),
    ]
}

body! {
    /// How a subscription is cancelled.
    CancelBody {
        /// What its fees come to; what each fee's own behaviour says when missing.
        optional flat_fee_behavior: FlatFee,
        /// Whether usage that was not billed is billed or dropped; `bill_full` when missing.
        optional usage_behavior: UsageBehavior,
        /// Whether that is invoiced now or at the end of the period; `invoice_now` when missing.
        optional invoicing_behavior: InvoicingBehavior,
    }
}

impl CancelBody {
    /// What becomes of fees and usage, and when that is invoiced.
    pub fn options(self) -> (Cancellation, InvoicingBehavior) {
        let cancellation = Cancellation {
            flat_fee_behavior: self.flat_fee_behavior.map(|FlatFee(behavior)| behavior),
            usage_behavior: self.usage_behavior.unwrap_or_default(),
        };
        (cancellation, self.invoicing_behavior.unwrap_or_default())
    }

    fn read(self, customer: CustomerKey, subscriptions: Vec<SubscriptionId>) -> CancelSubscription {
        let (cancellation, invoicing_behavior) = self.options();
        CancelSubscription { customer, subscriptions, cancellation, invoicing_behavior }
    }
}

body! {
    /// What to change of a subscription.
    UpdateBody {
        /// Its new last moment.
        optional end_date: EndDate,
        /// Whether it stops renewing.
        optional turn_off_auto_renew: bool,
        /// Takes the place of the metadata there was.
        optional metadata: FreeForm,
    }
}

impl UpdateBody {
    fn read(self, customer: CustomerKey, subscription: SubscriptionId) -> UpdateSubscription {
        UpdateSubscription {
            customer,
            subscription,
            end: self.end_date.map(|EndDate(end)| end),
            turn_off_auto_renew: self.turn_off_auto_renew.unwrap_or(false),
            metadata: self.metadata.map(|own| own.0),
        }
    }
}

body! {
    /// What a subscription is switched to. One of switch_plan_id and switch_plan_version_id is given.
    SwitchBody {
        /// The new plan; its one active version that suits the customer is taken.
        optional switch_plan_id: PlanId,
        /// The new plan version; it wins over the plan.
        optional switch_plan_version_id: PlanVersionId,
        /// Whether the difference is invoiced now or at the end of the period; `invoice_now` when missing.
        optional invoicing_behavior: SwitchInvoicing,
        /// Whether usage goes on or stays with the old plan; `transfer_to_new_subscription` when missing.
        optional usage_behavior: SwitchUsageBehavior,
        /// Units of prepaid components that the old plan did not have; anything but a list is ignored.
        optional component_fixed_charges_initial_units: InitialUnits,
    }
}

impl SwitchBody {
    fn read(self, customer: CustomerKey, subscription: SubscriptionId) -> Result<SwitchPlan, FieldError> {
        let version = match (self.switch_plan_version_id, self.switch_plan_id) {
            (Some(version), _) => VersionChoice::Version(version),
            (None, Some(plan)) => VersionChoice::Plan(plan),
            (None, None) => {
                let detail = "Give switch_plan_id or switch_plan_version_id.";
                return Err(FieldError::new("switch_plan_id", FieldCode::Required, detail));
            }
        };
        let units = self.component_fixed_charges_initial_units.unwrap_or_default().0;
        let (invoicing_behavior, usage_behavior) = SwitchInvoicing::read(self.invoicing_behavior, self.usage_behavior);
        Ok(SwitchPlan {
            customer,
            subscription,
            version,
            invoicing_behavior,
            usage_behavior,
            prepaid_units: units.into_iter().map(|own| (own.metric_id, own.units.0)).collect(),
        })
    }
}

impl Faults for SwitchBody {
    fn faults(&self, tx: &mut dyn Transaction, now: OffsetDateTime) -> Result<FieldErrors, Error> {
        match self.clone().read(Uuid::nil().into(), Uuid::nil().into()) {
            Ok(command) => command.faults(tx, now),
            Err(error) => Ok(FieldErrors(vec![error])),
        }
    }
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
    fn carry_out(
        &self,
        tx: &mut dyn Transaction,
        customer: CustomerKey,
        subscription: SubscriptionId,
        now: OffsetDateTime,
    ) -> Result<Subscription, Error> {
        let Some(plan) = self.replace_plan_id else {
            let command = UpdateSubscription {
                customer,
                subscription,
                end: self.end_date.map(|EndDate(end)| end),
                turn_off_auto_renew: self.turn_off_auto_renew.unwrap_or(false),
                metadata: None,
            };
            return update_subscription(tx, &command, now);
        };
        let command = SwitchPlan {
            customer,
            subscription,
            version: VersionChoice::Plan(plan),
            invoicing_behavior: self.invoicing_behavior.unwrap_or_default(),
            usage_behavior: self.usage_behavior.unwrap_or_default(),
            prepaid_units: Vec::new(),
        };
        switch_plan(tx, &command, now).map_err(|error| error.renamed("switch_plan_id", "replace_plan_id"))
    }
}

body! {
    /// A new number of prepaid units.
    PrepaidChangeBody {
        /// How many units from now on.
        required units: Number,
        /// Whether more units are invoiced at once or with the next invoice; true when missing.
        optional invoice_now: bool,
    }
}

impl PrepaidChangeBody {
    fn read(self, customer: CustomerKey, subscription: SubscriptionId, metric: MetricId) -> ChangePrepaidUnits {
        let (units, invoice_now) = (self.units.0, self.invoice_now.unwrap_or(true));
        ChangePrepaidUnits { customer, subscription, metric, units, invoice_now }
    }
}

impl Faults for PrepaidChangeBody {
    fn faults(&self, tx: &mut dyn Transaction, now: OffsetDateTime) -> Result<FieldErrors, Error> {
        self.clone().read(Uuid::nil().into(), Uuid::nil().into(), Uuid::nil().into()).faults(tx, now)
    }
}

faultless! { CancelBody, UpdateBody, UpdateMatchingBody }

/// Which of a customer's running and coming subscriptions a call is about; whether their plan must be named.
#[derive(Clone, Debug)]
struct Match<const NEEDS_PLAN: bool>(FindSubscriptions);

impl<const NEEDS_PLAN: bool> FromRequest for Match<NEEDS_PLAN> {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Query::parse(request.query_string()).and_then(|mut query| {
            let customer = query.required("customer_id");
            let plan = if NEEDS_PLAN { query.required("plan_id").map(Some) } else { query.optional("plan_id") };
            let filters = query.filters();
            let read = match (customer, plan, filters) {
                (Some(customer), Some(plan), Some(filters)) => {
                    Some(Self(FindSubscriptions { customer, plan, filters }))
                }
                _ => None,
            };
            query.finish(read)
        }))
    }
}

/// `POST /api/subscriptions/cancel/`
async fn cancel_matching(
    app: web::Data<App>,
    caller: Caller,
    Match(wanted): Match<false>,
    ApiJson(body): ApiJson<CancelBody>,
) -> Result<web::Json<Vec<SubscriptionView>>, ApiError> {
    let customer = wanted.customer.clone();
    let views = app.on_customer(&caller, &customer, move |tx, now| {
        let ids = find_subscriptions(tx, &wanted, now)?;
        let key = CustomerKey::derive(tx.organization(), &wanted.customer);
        let canceled = cancel_subscription(tx, &body.clone().read(key, ids), now)?;
        let customer = tx.customers().get(key)?;
        let mut holder = Holder::load(tx, &customer)?;
        canceled.iter().map(|subscription| holder.view(tx, subscription)).collect::<Result<Vec<_>, _>>()
    });
    Ok(web::Json(views.await?))
}

/// `POST /api/subscriptions/update/`
async fn update_matching(
    app: web::Data<App>,
    caller: Caller,
    Match(wanted): Match<true>,
    ApiJson(body): ApiJson<UpdateMatchingBody>,
) -> Result<web::Json<Vec<SubscriptionView>>, ApiError> {
    let customer = wanted.customer.clone();
    let views = app.on_customer(&caller, &customer, move |tx, now| {
        let ids = find_subscriptions(tx, &wanted, now)?;
        if ids.is_empty() {
            return Err(Error::NotFound(Noun::Subscription));
        }
        let key = CustomerKey::derive(tx.organization(), &wanted.customer);
        let updated = ids.into_iter().map(|id| body.carry_out(tx, key, id, now)).collect::<Result<Vec<_>, _>>()?;
        let customer = tx.customers().get(key)?;
        let mut holder = Holder::load(tx, &customer)?;
        updated.iter().map(|subscription| holder.view(tx, subscription)).collect::<Result<Vec<_>, _>>()
    });
    Ok(web::Json(views.await?))
}

/// `POST /api/subscriptions/{subscription_id}/switch_plan/`
async fn switch(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<SubscriptionId>,
    ApiJson(body): ApiJson<SwitchBody>,
) -> Result<web::Json<SubscriptionView>, ApiError> {
    let customer = app.read(&caller, move |tx, _| tx.subscriptions().customer_of(id)).await?;
    let command = body.read(customer, id).map_err(Error::from)?;
    let view = app.on_customer_key(&caller, customer, move |tx, now| {
        let new = switch_plan(tx, &command, now)?;
        SubscriptionView::new(tx, &new)
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/subscriptions/{subscription_id}/update/`
async fn update(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<SubscriptionId>,
    ApiJson(body): ApiJson<UpdateBody>,
) -> Result<web::Json<SubscriptionView>, ApiError> {
    let customer = app.read(&caller, move |tx, _| tx.subscriptions().customer_of(id)).await?;
    let command = body.read(customer, id);
    let view = app.on_customer_key(&caller, customer, move |tx, now| {
        let updated = update_subscription(tx, &command, now)?;
        SubscriptionView::new(tx, &updated)
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/subscriptions/{subscription_id}/cancel/`
async fn cancel(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<SubscriptionId>,
    ApiJson(body): ApiJson<CancelBody>,
) -> Result<web::Json<SubscriptionView>, ApiError> {
    let customer = app.read(&caller, move |tx, _| tx.subscriptions().customer_of(id)).await?;
    let command = body.read(customer, vec![id]);
    let view = app.on_customer_key(&caller, customer, move |tx, now| {
        cancel_subscription(tx, &command, now)?;
        let canceled = tx.subscriptions().get(customer, id)?;
        SubscriptionView::new(tx, &canceled)
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/`
async fn change_units(
    app: web::Data<App>,
    caller: Caller,
    PathPair(id, metric): PathPair<SubscriptionId, MetricId>,
    ApiJson(body): ApiJson<PrepaidChangeBody>,
) -> Result<web::Json<SubscriptionView>, ApiError> {
    let customer = app.read(&caller, move |tx, _| tx.subscriptions().customer_of(id)).await?;
    let command = body.read(customer, id, metric);
    let view = app.on_customer_key(&caller, customer, move |tx, now| {
        let changed = change_prepaid_units(tx, &command, now)?;
        SubscriptionView::new(tx, &changed)
    });
    Ok(web::Json(view.await?))
}
