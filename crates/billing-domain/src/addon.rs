//! Add-ons: what can be attached to a subscription, and charged beside its plan.
//!
//! An add-on has the content of a plan version, and an attached one is a subscription with a
//! [parent](crate::subscription::Subscription::parent): pricing, proration, billing, access and usage are those of
//! every other subscription.

use time::OffsetDateTime;

use crate::id::{AddonId, PlanId};
use crate::plan::{ChargeBehavior, Plan, PlanVersion};

/// Something that can be attached to a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addon {
    /// Its id.
    pub id: AddonId,
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// How often it is charged, and when that is invoiced.
    pub terms: AddonTerms,
    /// What it charges and grants: a version of the plan [`Addon::plan_id`], which nothing else can be subscribed to.
    pub content: PlanVersion,
    /// When it was made.
    pub created_at: OffsetDateTime,
}

/// How often an add-on is charged, and when that is invoiced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddonTerms {
    /// How often it is charged.
    pub billing_frequency: BillingFrequency,
    /// When what it charges in advance is invoiced.
    pub invoice_when: InvoiceWhen,
}

choices! {
    /// How often an add-on is charged.
    pub BillingFrequency {
        /// Once: it ends with the period that it was attached in.
        OneTime = "one_time",
        /// Every period anew: it renews with its parent.
        Recurring = "recurring",
    }
}

impl BillingFrequency {
    /// What a fee of the add-on costs when its interval is cut short and nobody has said so: what is charged once, such
    /// as a set-up fee, is charged in full whenever it is attached; what comes every period is prorated.
    ///
    /// Source: `docs/pricing.md`, "One-time fees".
    pub fn default_behavior(self) -> ChargeBehavior {
        match self {
            Self::OneTime => ChargeBehavior::Full,
            Self::Recurring => ChargeBehavior::Prorate,
        }
    }
}

choices! {
    /// When what an add-on charges in advance is invoiced.
    pub InvoiceWhen {
        /// When it is attached.
        InvoiceOnAttach = "invoice_on_attach",
        /// With the invoice of the end of the period.
        InvoiceOnSubscriptionEnd = "invoice_on_subscription_end",
    }
}

choices! {
    /// What an add-on charges for.
    pub AddonType {
        /// Fees alone.
        Flat = "flat",
        /// Usage, perhaps beside fees.
        UsageBased = "usage_based",
    }
}

impl Addon {
    /// The plan that stands for it where every subscription has one.
    pub fn plan_id(&self) -> PlanId {
        plan_of(self.id)
    }

    /// As the plan that stands for it: it has no duration of its own but that of the subscription it is attached to.
    pub fn plan(&self) -> Plan {
        Plan {
            id: self.plan_id(),
            name: self.name.clone(),
            description: self.description.clone(),
            duration: None,
            tags: Vec::new(),
            external_links: Vec::new(),
            created_at: self.created_at,
            deleted_at: None,
        }
    }

    /// What it charges for.
    pub fn addon_type(&self) -> AddonType {
        if self.content.components.is_empty() { AddonType::Flat } else { AddonType::UsageBased }
    }
}

/// The plan that stands for an add-on.
pub fn plan_of(addon: AddonId) -> PlanId {
    PlanId::from(addon.uuid())
}

/// The add-on that a plan stands for, if it does.
pub fn addon_of(plan: PlanId) -> AddonId {
    AddonId::from(plan.uuid())
}
