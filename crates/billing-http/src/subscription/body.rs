//! What a subscription is made from.

use billing_domain::customer::CustomerId;
use billing_domain::id::{MetricId, PlanId, PlanVersionId};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::workflow::{CreateSubscription, VersionChoice};
use billing_domain::{FieldCode, FieldErrors};

use crate::wire::{EndDate, FreeForm, FromFields, Number, Object, ObjectFields, StartDate, body, read_through};

body! {
    /// A new subscription. Exactly one of plan_id and version_id is given.
    CreateSubscriptionBody {
        /// Whose.
        required customer_id: CustomerId,
        /// Its first instant; may lie in the past.
        required start_date: StartDate,
        /// Its last moment; as long as the plan lasts when missing.
        optional end_date: EndDate,
        together version: CreateChoice,
        /// Whether it renews at its end; true when missing.
        optional auto_renew: bool,
        /// What it shall say of itself; true when missing.
        optional is_new: bool,
        /// Only events with all of these properties count.
        optional subscription_filters: SubscriptionFilters,
        /// Units of prepaid components, where they differ from the plan's.
        optional component_fixed_charges_initial_units: Vec<PrepaidUnitsBody>,
        /// Free-form, given back as it came.
        optional metadata: FreeForm,
    }
}

body! {
    /// Units of a prepaid component.
    PrepaidUnitsBody {
        /// The component's metric.
        required metric_id: MetricId,
        /// How many.
        required units: Number,
    }
}

/// Which version is subscribed to: by plan, or by itself.
#[derive(Clone, Copy, Debug)]
pub struct CreateChoice(VersionChoice);

impl FromFields for CreateChoice {
    fn from_fields(object: &mut Object) -> Option<Self> {
        let (plan, version) = (object.optional("plan_id"), object.optional("version_id"));
        match (plan?, version?) {
            (Some(plan), None) => Some(Self(VersionChoice::Plan(plan))),
            (None, Some(version)) => Some(Self(VersionChoice::Version(version))),
            (plan, _) => {
                let code = if plan.is_some() { FieldCode::NotAllowedTogether } else { FieldCode::Required };
                object.note("plan_id", code, "Give exactly one of plan_id and version_id.")
            }
        }
    }

    fn describe_fields(object: &mut ObjectFields<'_>) {
        object.field::<PlanId>("plan_id", "The plan; its one active version that suits the customer is taken.", false);
        object.field::<PlanVersionId>("version_id", "The plan version.", false);
    }
}

impl CreateSubscriptionBody {
    fn read(self) -> Result<CreateSubscription, FieldErrors> {
        let units = self.component_fixed_charges_initial_units.unwrap_or_default();
        Ok(CreateSubscription {
            customer: self.customer_id,
            version: self.version.0,
            start: self.start_date.0,
            end: self.end_date.map(|EndDate(end)| end),
            auto_renew: self.auto_renew.unwrap_or(true),
            is_new: self.is_new.unwrap_or(true),
            filters: self.subscription_filters.unwrap_or_default(),
            metadata: self.metadata.unwrap_or_default().0,
            prepaid_units: units.into_iter().map(|unit| (unit.metric_id, unit.units.0)).collect(),
        })
    }
}

read_through! { CreateSubscription = CreateSubscriptionBody; }
