//! Plans as answers show them.

use std::collections::BTreeSet;

use billing_domain::Error;
use billing_domain::id::PlanId;
use billing_domain::period::PlanDuration;
use billing_domain::plan::{ExternalLink, Plan, PlanVersion};
use billing_domain::store::Transaction;

use super::filter::VersionFilter;
use super::version_view::{Catalog, PlanVersionView};
use crate::wire::{Null, view};

view! {
    /// A plan: a name over a sequence of versions.
    PlanView {
        /// Its id.
        plan_id: PlanId,
        /// Its name.
        plan_name: String,
        /// What it is.
        plan_description: Option<String>,
        /// How long its subscriptions last; null: each names its own end.
        plan_duration: Option<PlanDuration>,
        /// Its tags.
        tags: Vec<String>,
        /// Its counterparts at payment providers.
        external_links: Vec<ExternalLinkView>,
        /// How many version numbers there are among public versions.
        num_versions: u32,
        /// The highest number of an active public version; 0 when there is none.
        active_version: u32,
        /// Running subscriptions over all versions.
        active_subscriptions: u64,
        /// The versions that match the filters.
        versions: Vec<PlanVersionView>,
        /// Deprecated: the first active version.
        display_version: Option<PlanVersionView>,
        /// Deprecated: always null.
        parent_plan: Null,
        /// Deprecated: always null.
        target_customer: Null,
        /// Deprecated: always `active`.
        status: &'static str,
    }
}

view! {
    /// A plan's counterpart at a payment provider.
    ExternalLinkView {
        /// The provider.
        source: String,
        /// The plan's id there.
        external_plan_id: String,
    }
}

impl From<&ExternalLink> for ExternalLinkView {
    fn from(link: &ExternalLink) -> Self {
        Self { source: link.source.clone(), external_plan_id: link.external_plan_id.clone() }
    }
}

impl PlanView {
    /// Of a plan, with the versions that `filter` keeps. The counts are over all versions.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(
        tx: &mut dyn Transaction,
        catalog: &mut Catalog,
        plan: &Plan,
        filter: &VersionFilter,
    ) -> Result<Self, Error> {
        let now = catalog.now;
        let all: Vec<PlanVersion> = catalog.versions_of(plan.id).cloned().collect();
        let public: Vec<&PlanVersion> = all.iter().filter(|version| !version.is_custom()).collect();
        let numbers: BTreeSet<u32> = public.iter().map(|version| version.number).collect();
        let active = public.iter().filter(|version| version.is_active(now)).map(|version| version.number);
        let mut versions = Vec::new();
        for version in all.iter().filter(|version| filter.keeps(version, now)) {
            versions.push(PlanVersionView::new(tx, catalog, plan, version)?);
        }
        let display = all.iter().find(|version| version.is_active(now));
        Ok(Self {
            plan_id: plan.id,
            plan_name: plan.name.clone(),
            plan_description: plan.description.clone(),
            plan_duration: plan.duration,
            tags: plan.tags.clone(),
            external_links: plan.external_links.iter().map(Into::into).collect(),
            num_versions: u32::try_from(numbers.len()).unwrap_or(u32::MAX),
            active_version: active.max().unwrap_or(0),
            active_subscriptions: all.iter().map(|version| catalog.active_subscriptions(version.id)).sum(),
            versions,
            display_version: display.map(|version| PlanVersionView::new(tx, catalog, plan, version)).transpose()?,
            parent_plan: Null,
            target_customer: Null,
            status: "active",
        })
    }
}
