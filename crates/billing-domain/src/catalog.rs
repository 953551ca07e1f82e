//! What has been looked up of the catalogue: plan versions, each with what it takes to bill it, and by what rule access is given. It is
//! looked up in `workflow/look_ups.rs`.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::addon::{AddonTerms, BillingFrequency};
use crate::currency::Currency;
use crate::id::{MetricId, PlanVersionId};
use crate::invoice::PlanVersionBrief;
use crate::metric::Metric;
use crate::organization::AccessPolicy;
use crate::plan::{Plan, PlanVersion};

/// What has been looked up of one organization, so that whoever asks next in the same transaction need not: it tells what the store told
/// then.
#[derive(Clone, Default)]
pub struct Catalog {
    pub(crate) offers: BTreeMap<PlanVersionId, Rc<Offer>>,
    pub(crate) access_policy: Option<AccessPolicy>,
}

/// A plan version, its plan, its currency and its metrics.
pub(crate) struct Offer {
    /// The plan; for an add-on, the one that stands for it.
    pub plan: Plan,
    /// Set for an add-on.
    pub addon: Option<AddonTerms>,
    pub version: PlanVersion,
    pub currency: Currency,
    pub metrics: BTreeMap<MetricId, Metric>,
}

impl Offer {
    /// Whether it is an add-on that is charged once.
    pub fn is_one_time(&self) -> bool {
        self.addon.is_some_and(|terms| terms.billing_frequency == BillingFrequency::OneTime)
    }

    /// The version as invoices and access checks refer to it.
    pub fn brief(&self) -> PlanVersionBrief {
        PlanVersionBrief {
            plan_name: self.version.name(&self.plan).to_owned(),
            plan_id: self.plan.id,
            version_id: self.version.id,
            version: self.version.number,
        }
    }
}
