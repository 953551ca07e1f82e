//! What a plan is made from.

use billing_domain::FieldErrors;
use billing_domain::period::PlanDuration;
use billing_domain::plan::ExternalLink;
use billing_domain::workflow::{CreatePlan, NewPlanVersion};

use crate::wire::{body, read_through};
use billing_domain::customer::PaymentProvider;

body! {
    /// A new plan.
    CreatePlanBody {
        /// Its name.
        required plan_name: String,
        /// What it is.
        optional plan_description: String,
        /// How long its subscriptions last; without it each subscription names its own end.
        optional plan_duration: PlanDuration,
        /// Its tags, compared without regard to case.
        optional tags: Vec<String>,
        /// Its counterparts at payment providers.
        optional external_links: Vec<ExternalLink>,
        /// Its first version.
        optional initial_version: NewPlanVersion,
    }
}

impl CreatePlanBody {
    fn read(self) -> Result<CreatePlan, FieldErrors> {
        Ok(CreatePlan {
            name: self.plan_name,
            description: self.plan_description,
            duration: self.plan_duration,
            tags: self.tags.unwrap_or_default(),
            external_links: self.external_links.unwrap_or_default(),
            initial_version: self.initial_version,
        })
    }
}

body! {
    /// A plan's counterpart at a payment provider.
    ExternalLinkBody {
        /// The provider.
        required source: PaymentProvider,
        /// The plan's id there.
        required external_plan_id: String,
    }
}

impl ExternalLinkBody {
    fn read(self) -> Result<ExternalLink, FieldErrors> {
        Ok(ExternalLink { source: self.source.as_str().to_owned(), external_plan_id: self.external_plan_id })
    }
}

read_through! {
    CreatePlan = CreatePlanBody;
    ExternalLink = ExternalLinkBody;
}
