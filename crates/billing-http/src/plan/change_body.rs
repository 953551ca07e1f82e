//! What is changed of plans and versions.

use billing_domain::customer::CustomerId;
use billing_domain::id::{PlanId, PlanVersionId};
use billing_domain::period::PlanDuration;
use billing_domain::plan::ExternalLink;
use billing_domain::workflow::{MakeActiveType, UpdatePlan, UpdatePlanVersion};

use crate::wire::{Instant, Patch, body};

body! {
    /// What to change of a plan; what is left out stays.
    UpdatePlanBody {
        /// Its name.
        change plan_name: String,
        /// What it is; null: nothing is said.
        patch plan_description: String,
        /// The duration it has; it cannot be changed.
        patch plan_duration: PlanDuration,
        /// Takes the place of the tags there were.
        patch tags: Vec<String>,
        /// Takes the place of the links there were.
        patch external_links: Vec<ExternalLink>,
    }
}

impl UpdatePlanBody {
    pub fn read(self, plan: PlanId) -> UpdatePlan {
        UpdatePlan {
            plan,
            name: self.plan_name,
            description: self.plan_description.nullable(),
            duration: self.plan_duration.nullable(),
            tags: self.tags.nullable().map(Option::unwrap_or_default),
            external_links: self.external_links.nullable().map(Option::unwrap_or_default),
        }
    }
}

body! {
    /// What to change of a plan version; what is left out stays. What it charges cannot be changed: make a version.
    UpdatePlanVersionBody {
        /// A name in place of the plan's; null: the plan's.
        patch localized_name: String,
        /// From when on it can be subscribed to; null: not yet.
        patch active_from: Instant,
        /// Until when it can be subscribed to; null: without end.
        patch active_to: Instant,
        /// The version of the same plan that its subscriptions renew to; its own id or null: they stay.
        patch replace_with: PlanVersionId,
        /// The plan that its subscriptions renew to; null: none.
        patch transition_to: PlanId,
        /// Ids of the customers it is made for; none: it is public.
        patch target_customers: Vec<CustomerId>,
        /// What becomes of the versions it takes the place of when it starts; `replace_on_renewal` when missing.
        optional make_active_type: MakeActiveType,
    }
}

impl UpdatePlanVersionBody {
    pub fn read(self, version: PlanVersionId) -> UpdatePlanVersion {
        let instant = |patch: Patch<Instant>| patch.nullable().map(|at| at.map(|Instant(at)| at));
        UpdatePlanVersion {
            version,
            localized_name: self.localized_name.nullable(),
            active_from: instant(self.active_from),
            active_to: instant(self.active_to),
            replace_with: self.replace_with.nullable(),
            transition_to: self.transition_to.nullable(),
            target_customers: self.target_customers.nullable().map(Option::unwrap_or_default),
            make_active_type: self.make_active_type.unwrap_or(MakeActiveType::ReplaceOnRenewal),
        }
    }
}
