//! Changing and ending one subscription.

use std::fmt::Display;

use actix_web::web;
use billing_domain::FieldCode;
use billing_domain::id::{CustomerKey, MetricId, OrganizationId, PlanId, PlanVersionId, SubscriptionId};
use billing_domain::subscription::{Cancellation, InvoicingBehavior, SwitchUsageBehavior, UsageBehavior};
use billing_domain::workflow::{
    CancelSubscription, ChangePrepaidUnits, SwitchPlan, UpdateSubscription, VersionChoice, cancel_subscription,
    change_prepaid_units, switch_plan, update_subscription,
};

use super::spelling::{FlatFee, InitialUnits, SwitchInvoicing};
use super::view::SubscriptionView;
use crate::app::App;
use crate::caller::Bearer;
use crate::endpoint::{Endpoint, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::path::{PathPair, PathParam};
use crate::wire::{EndDate, FreeForm, FromFields, Number, Object, ObjectFields, body};

/// The calls that change subscriptions.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        post("/api/subscriptions/{subscription_id}/update/", "Change end, renewal or metadata", update)
            .for_bearers()
            .takes::<UpdateBody>()
            .answers::<SubscriptionView>(200),
        post("/api/subscriptions/{subscription_id}/cancel/", "Cancel a subscription", cancel)
            .for_bearers()
            .takes::<CancelBody>()
            .answers::<SubscriptionView>(200),
        post("/api/subscriptions/{subscription_id}/switch_plan/", "Switch a subscription to another plan", switch)
            .for_bearers()
            .takes::<SwitchBody>()
            .answers::<SubscriptionView>(200),
        post(
            "/api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/",
            "Change how many units are paid for in advance",
            change_units,
        )
        .for_bearers()
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

    /// The command, about this subscription of this customer's.
    pub fn read(self, customer: CustomerKey, subscriptions: Vec<SubscriptionId>) -> CancelSubscription {
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
    /// The command, about this subscription of this customer's.
    pub fn read(self, customer: CustomerKey, subscription: SubscriptionId) -> UpdateSubscription {
        UpdateSubscription {
            customer,
            subscription,
            end: self.end_date.map(|EndDate(end)| end),
            turn_off_auto_renew: self.turn_off_auto_renew.unwrap_or(false),
            metadata: self.metadata.map(|metadata| metadata.0),
        }
    }
}

body! {
    /// What a subscription is switched to. One of switch_plan_id and switch_plan_version_id is given.
    SwitchBody {
        together version: SwitchChoice,
        /// Whether the difference is invoiced now or at the end of the period; `invoice_now` when missing.
        optional invoicing_behavior: SwitchInvoicing,
        /// Whether usage goes on or stays with the old plan; `transfer_to_new_subscription` when missing.
        optional usage_behavior: SwitchUsageBehavior,
        /// Units of prepaid components that the old plan did not have; anything but a list is ignored.
        optional component_fixed_charges_initial_units: InitialUnits,
    }
}

/// Which version is switched to: by plan, or by itself, which wins.
#[derive(Clone, Copy, Debug)]
pub struct SwitchChoice(VersionChoice);

impl FromFields for SwitchChoice {
    fn from_fields(object: &mut Object) -> Option<Self> {
        let (plan, version) = (object.optional("switch_plan_id"), object.optional("switch_plan_version_id"));
        match (plan?, version?) {
            (_, Some(version)) => Some(Self(VersionChoice::Version(version))),
            (Some(plan), None) => Some(Self(VersionChoice::Plan(plan))),
            (None, None) => {
                let detail = "Give switch_plan_id or switch_plan_version_id.";
                object.note("switch_plan_id", FieldCode::Required, detail)
            }
        }
    }

    fn describe_fields(object: &mut ObjectFields<'_>) {
        let plan = "The new plan; its one active version that suits the customer is taken.";
        object.field::<PlanId>("switch_plan_id", plan, false);
        let version = "The new plan version; it wins over the plan.";
        object.field::<PlanVersionId>("switch_plan_version_id", version, false);
    }
}

impl SwitchBody {
    /// The command, about this subscription of this customer's.
    pub fn read(self, customer: CustomerKey, subscription: SubscriptionId) -> SwitchPlan {
        let units = self.component_fixed_charges_initial_units.unwrap_or_default().0;
        let (invoicing_behavior, usage_behavior) = SwitchInvoicing::read(self.invoicing_behavior, self.usage_behavior);
        SwitchPlan {
            customer,
            subscription,
            version: self.version.0,
            invoicing_behavior,
            usage_behavior,
            prepaid_units: units.into_iter().map(|unit| (unit.metric_id, unit.units.0)).collect(),
        }
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
    /// The command, about this subscription of this customer's.
    pub fn read(self, customer: CustomerKey, subscription: SubscriptionId, metric: MetricId) -> ChangePrepaidUnits {
        let (units, invoice_now) = (self.units.0, self.invoice_now.unwrap_or(true));
        ChangePrepaidUnits { customer, subscription, metric, units, invoice_now }
    }
}

/// Tells the log what a call has made of a subscription. That one was made, also in the place of another, the store tells.
pub fn log_change(change: &str, (organization, customer): (OrganizationId, CustomerKey), id: impl Display) {
    log::info!(
        organization:%, customer_key:% = customer.uuid(), subscription_id:% = id, change;
        "subscription changed"
    );
}

/// `POST /api/subscriptions/{subscription_id}/switch_plan/`
async fn switch(
    app: web::Data<App>,
    bearer: Bearer,
    PathParam(id): PathParam<SubscriptionId>,
    ApiJson(body): ApiJson<SwitchBody>,
) -> Result<web::Json<SubscriptionView>, ApiError> {
    let customer = app.read(&bearer, move |tx, _| tx.subscriptions().customer_of(id)).await?;
    let command = body.read(customer, id);
    let view = app.on_customer_key(&bearer, customer, move |tx, now| {
        let new = switch_plan(tx, &command, now)?;
        SubscriptionView::new(tx, &new)
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/subscriptions/{subscription_id}/update/`
async fn update(
    app: web::Data<App>,
    bearer: Bearer,
    PathParam(id): PathParam<SubscriptionId>,
    ApiJson(body): ApiJson<UpdateBody>,
) -> Result<web::Json<SubscriptionView>, ApiError> {
    let customer = app.read(&bearer, move |tx, _| tx.subscriptions().customer_of(id)).await?;
    let command = body.read(customer, id);
    let view = app.on_customer_key(&bearer, customer, move |tx, now| {
        let updated = update_subscription(tx, &command, now)?;
        SubscriptionView::new(tx, &updated)
    });
    let view = view.await?;
    log_change("updated", (bearer.organization(), customer), id);
    Ok(web::Json(view))
}

/// `POST /api/subscriptions/{subscription_id}/cancel/`
async fn cancel(
    app: web::Data<App>,
    bearer: Bearer,
    PathParam(id): PathParam<SubscriptionId>,
    ApiJson(body): ApiJson<CancelBody>,
) -> Result<web::Json<SubscriptionView>, ApiError> {
    let customer = app.read(&bearer, move |tx, _| tx.subscriptions().customer_of(id)).await?;
    let command = body.read(customer, vec![id]);
    let view = app.on_customer_key(&bearer, customer, move |tx, now| {
        cancel_subscription(tx, &command, now)?;
        let canceled = tx.subscriptions().get(customer, id)?;
        SubscriptionView::new(tx, &canceled)
    });
    let view = view.await?;
    log_change("cancelled", (bearer.organization(), customer), id);
    Ok(web::Json(view))
}

/// `POST /api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/`
async fn change_units(
    app: web::Data<App>,
    bearer: Bearer,
    PathPair(id, metric): PathPair<SubscriptionId, MetricId>,
    ApiJson(body): ApiJson<PrepaidChangeBody>,
) -> Result<web::Json<SubscriptionView>, ApiError> {
    let customer = app.read(&bearer, move |tx, _| tx.subscriptions().customer_of(id)).await?;
    let command = body.read(customer, id, metric);
    let view = app.on_customer_key(&bearer, customer, move |tx, now| {
        let changed = change_prepaid_units(tx, &command, now)?;
        SubscriptionView::new(tx, &changed)
    });
    let view = view.await?;
    log_change("prepaid_units_changed", (bearer.organization(), customer), id);
    Ok(web::Json(view))
}
