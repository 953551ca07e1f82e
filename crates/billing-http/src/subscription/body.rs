//! What a subscription is made from.

use billing_domain::customer::CustomerId;
use billing_domain::id::{MetricId, PlanId, PlanVersionId};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::workflow::{CreateSubscription, VersionChoice};
use billing_domain::{FieldCode, FieldErrors};

use crate::wire::{EndDate, FreeForm, FromJson, Number, StartDate, body, read_through};

body! {
    /// A new subscription. Exactly one of plan_id and version_id is given.
    CreateSubscriptionBody {
        /// Whose.
        required customer_id: CustomerId,
        /// Its first instant; may lie in the past.
        required start_date: StartDate,
        /// Its last moment; as long as the plan lasts when missing.
        optional end_date: EndDate,
        /// The plan; its one active version that suits the customer is taken.
        optional plan_id: PlanId,
        /// The plan version.
        optional version_id: PlanVersionId,
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

impl CreateSubscriptionBody {
    fn read(self, errors: &mut FieldErrors) -> Option<CreateSubscription> {
        let version = match (self.plan_id, self.version_id) {
            (Some(plan), None) => VersionChoice::Plan(plan),
            (None, Some(version)) => VersionChoice::Version(version),
            (plan, _) => {
                let detail = "Give exactly one of plan_id and version_id.";
                let code = if plan.is_some() { FieldCode::NotAllowedTogether } else { FieldCode::Required };
                errors.push("plan_id", code, detail);
                VersionChoice::Plan(plan.or(PlanId::stand_in())?)
            }
        };
        let units = self.component_fixed_charges_initial_units.unwrap_or_default();
        Some(CreateSubscription {
            customer: self.customer_id,
            version,
            start: self.start_date.0,
            end: self.end_date.map(|EndDate(end)| end),
            auto_renew: self.auto_renew.unwrap_or(true),
            is_new: self.is_new.unwrap_or(true),
            filters: self.subscription_filters.unwrap_or_default(),
            metadata: self.metadata.unwrap_or_default().0,
            prepaid_units: units.into_iter().map(|own| (own.metric_id, own.units.0)).collect(),
        })
    }
}

read_through! { CreateSubscription = CreateSubscriptionBody; }
