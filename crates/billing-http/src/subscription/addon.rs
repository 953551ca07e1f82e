//! Attaching add-ons to subscriptions, and cancelling them.

use actix_web::web;
use billing_domain::FieldErrors;
use billing_domain::id::{AddonId, AddonSubscriptionId, AddonVersionId, CustomerKey, PlanVersionId, SubscriptionId};
use billing_domain::store::Transaction;
use billing_domain::subscription::Subscription;
use billing_domain::workflow::{AddonChoice, AttachAddon, AttachedAddon, CancelAddon, attach_addon, cancel_addon};
use billing_domain::{Error, FieldCode, Noun};
use serde_json::{Map, Value};

use super::change::{CancelBody, log_change};
use super::view::{Holder, SubscriptionView};
use crate::addon::AddonBriefView;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::path::{PathPair, PathParam};
use crate::wire::{
    CustomerBriefView, Described, FreeForm, FromFields, FromJson, Instant, Object, ObjectFields, PlanVersionBriefView,
    Schema, Schemas, body, view,
};

/// The calls about attached add-ons.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        post("/api/subscriptions/{subscription_id}/addons/attach/", "Attach an add-on to a subscription", attach)
            .takes::<AttachBody>()
            .answers::<AddonSubscriptionView>(200),
        post(
            "/api/subscriptions/{subscription_id}/addons/{addon_id}/cancel/",
            "Cancel an add-on of a subscription",
            cancel,
        )
        .takes::<CancelBody>()
        .answers::<AddonSubscriptionView>(200),
    ]
}

body! {
    /// What is attached. Exactly one of addon_id and addon_version_id is given.
    AttachBody {
        together addon: AttachChoice,
        /// Multiplies fees, not usage; 1 when missing.
        optional quantity: u32,
        /// Free-form, given back as it came.
        optional metadata: FreeForm,
    }
}

/// Which add-on is attached: by itself, or by its content.
#[derive(Clone, Copy, Debug)]
pub struct AttachChoice(AddonChoice);

impl FromFields for AttachChoice {
    fn from_fields(object: &mut Object) -> Option<Self> {
        let (addon, version) = (object.optional("addon_id"), object.optional::<AddonVersionId>("addon_version_id"));
        match (addon?, version?) {
            (Some(id), None) => Some(Self(AddonChoice::Addon(id))),
            (None, Some(id)) => Some(Self(AddonChoice::Version(id.uuid().into()))),
            (addon, _) => {
                let code = if addon.is_some() { FieldCode::NotAllowedTogether } else { FieldCode::Required };
                object.note("addon_id", code, "Give exactly one of addon_id and addon_version_id.")
            }
        }
    }

    fn describe_fields(object: &mut ObjectFields<'_>) {
        object.field::<AddonId>("addon_id", "The add-on.", false);
        object.field::<AddonVersionId>("addon_version_id", "The add-on, by its content.", false);
    }
}

impl AttachBody {
    /// The command, about this subscription of this customer's.
    pub fn read(self, customer: CustomerKey, parent: SubscriptionId) -> AttachAddon {
        let AttachChoice(addon) = self.addon;
        let quantity = self.quantity.unwrap_or(1);
        AttachAddon { customer, parent, addon, quantity, metadata: self.metadata.unwrap_or_default().0 }
    }
}

/// An attached add-on in a path: by add-on, by its content, or by its own id.
#[derive(Clone, Copy, Debug)]
pub struct NamedAddon(pub AttachedAddon);

impl FromJson for NamedAddon {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        let begins = |prefix: &str| value.as_str().is_some_and(|text| text.starts_with(prefix));
        Ok(Self(if begins(AddonSubscriptionId::PREFIX) {
            AttachedAddon::Attached(AddonSubscriptionId::from_json(value)?.uuid().into())
        } else if begins(AddonVersionId::PREFIX) {
            AttachedAddon::Version(AddonVersionId::from_json(value)?.uuid().into())
        } else if begins(PlanVersionId::PREFIX) {
            AttachedAddon::Version(PlanVersionId::from_json(value)?)
        } else {
            AttachedAddon::Addon(AddonId::from_json(value)?)
        }))
    }
}

impl Described for NamedAddon {
    fn describe(schemas: &mut Schemas) -> Schema {
        AddonId::describe(schemas)
    }
}

view! {
    /// An add-on that is attached to a subscription.
    AddonSubscriptionView {
        /// Its id; a renewal gets a new one.
        addon_subscription_id: AddonSubscriptionId,
        /// Whose.
        customer: CustomerBriefView,
        /// What is attached.
        addon: AddonBriefView,
        /// The first instant inside.
        start_date: Instant,
        /// The last microsecond inside.
        end_date: Instant,
        /// What it is attached to.
        parent: ParentView,
        /// Whether nothing of it is left to invoice; of what is charged once, as soon as it was billed.
        fully_billed: bool,
        /// Whether it renews with its parent.
        auto_renew: bool,
        /// Multiplies fees.
        quantity: u32,
        /// Free-form, given back as it came.
        metadata: Map<String, Value>,
    }
}

view! {
    /// The subscription that an add-on is attached to.
    ParentView {
        ..subscription: SubscriptionView,
        /// The same as billing_plan.
        plan_detail: PlanVersionBriefView,
    }
}

impl From<SubscriptionView> for ParentView {
    fn from(subscription: SubscriptionView) -> Self {
        Self { plan_detail: subscription.billing_plan.clone(), subscription }
    }
}

impl AddonSubscriptionView {
    /// Of an attached add-on, as it is stored.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(tx: &mut dyn Transaction, attached: &Subscription) -> Result<Self, Error> {
        let parent = attached.parent.ok_or(Error::NotFound(Noun::AddonSubscription))?;
        let parent = tx.subscriptions().get(attached.customer, parent)?;
        let customer = tx.customers().get(attached.customer)?;
        let mut holder = Holder::load(tx, &customer)?;
        let brief = holder.addon(tx, attached)?;
        Ok(Self {
            addon_subscription_id: brief.addon_subscription_id,
            customer: CustomerBriefView::from(&customer),
            addon: brief.addon,
            start_date: brief.start_date,
            end_date: brief.end_date,
            parent: holder.view(tx, &parent)?.into(),
            fully_billed: brief.fully_billed,
            auto_renew: attached.auto_renew,
            quantity: attached.quantity,
            metadata: brief.metadata,
        })
    }
}

/// `POST /api/subscriptions/{subscription_id}/addons/attach/`
async fn attach(
    app: web::Data<App>,
    caller: Caller,
    PathParam(parent): PathParam<SubscriptionId>,
    ApiJson(body): ApiJson<AttachBody>,
) -> Result<web::Json<AddonSubscriptionView>, ApiError> {
    let customer = app.read(&caller, move |tx, _| tx.subscriptions().customer_of(parent)).await?;
    let command = body.read(customer, parent);
    let view = app.on_customer_key(&caller, customer, move |tx, now| {
        let attached = attach_addon(tx, &command, now)?;
        AddonSubscriptionView::new(tx, &attached)
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/subscriptions/{subscription_id}/addons/{addon_id}/cancel/`
async fn cancel(
    app: web::Data<App>,
    caller: Caller,
    PathPair(parent, NamedAddon(addon)): PathPair<SubscriptionId, NamedAddon>,
    ApiJson(body): ApiJson<CancelBody>,
) -> Result<web::Json<AddonSubscriptionView>, ApiError> {
    let customer = app.read(&caller, move |tx, _| tx.subscriptions().customer_of(parent)).await?;
    let (cancellation, invoicing_behavior) = body.options();
    let command = CancelAddon { customer, parent, addon, cancellation, invoicing_behavior };
    let view = app.on_customer_key(&caller, customer, move |tx, now| {
        let cancelled = cancel_addon(tx, &command, now)?;
        AddonSubscriptionView::new(tx, &cancelled)
    });
    let view = view.await?;
    log_change("cancelled", (caller.organization, customer), view.addon_subscription_id);
    Ok(web::Json(view))
}
