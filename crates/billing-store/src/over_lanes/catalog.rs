//! What the catalogue keeps: of who holds a plan or lives by a clock every lane is asked, all else is the catalogue's own.

use std::collections::BTreeMap;

use billing_domain::Error;
use billing_domain::id::{CustomerKey, PlanId, PlanVersionId, TestClockId, UsageAlertId};
use billing_domain::plan::{Plan, PlanVersion};
use billing_domain::store::{
    HeldVersion, Page, PageRequest, PlanRepo, TestClockRepo, Transaction as _, UsageAlertRepo, VersionHolder,
};
use billing_domain::test_clock::TestClock;
use billing_domain::usage_alert::{Firing, UsageAlert};
use time::OffsetDateTime;

use super::OverLanes;
use super::methods::refuse;
use crate::pg::cursor::Cursor;
use crate::repo::plan::{cursor_of, holder_page};
use crate::transaction::hand_on;

impl PlanRepo for OverLanes<'_, '_> {
    fn is_held(&mut self, plan: PlanId, version: Option<PlanVersionId>, now: OffsetDateTime) -> Result<bool, Error> {
        Ok(self.each(|tx| tx.plans().is_held(plan, version, now))?.contains(&true))
    }

    fn active_subscriptions(&mut self, now: OffsetDateTime) -> Result<BTreeMap<PlanVersionId, u64>, Error> {
        let mut active = BTreeMap::new();
        for (version, count) in self.each(|tx| tx.plans().active_subscriptions(now))?.into_iter().flatten() {
            *active.entry(version).or_default() += count;
        }
        Ok(active)
    }

    fn list_holders(
        &mut self,
        version: PlanVersionId,
        now: OffsetDateTime,
        page: &PageRequest,
    ) -> Result<Page<VersionHolder>, Error> {
        let after = page.after.as_deref().map(Cursor::parse).transpose()?;
        let mut found = self.each(|tx| tx.load_holders(version, now, after, page.limit))?.concat();
        found.sort_by_key(cursor_of);
        Ok(holder_page(found, page.limit))
    }

    hand_on! { plans =>
        fn insert(plan: &Plan) -> ();
        fn get(id: PlanId) -> Plan;
        fn get_even_deleted(id: PlanId) -> Plan;
        fn update(plan: &Plan) -> ();
        fn list() -> Vec<Plan>;
        fn insert_version(version: &PlanVersion) -> ();
        fn get_version(id: PlanVersionId) -> PlanVersion;
        fn list_versions(plan: Option<PlanId>) -> Vec<PlanVersion>;
        fn update_version(version: &PlanVersion) -> ();
    }
}

impl TestClockRepo for OverLanes<'_, '_> {
    fn list_customers(&mut self, id: TestClockId) -> Result<Vec<CustomerKey>, Error> {
        // Lanes are ranges of keys, so they are in order.
        Ok(self.each(|tx| tx.test_clocks().list_customers(id))?.concat())
    }

    fn list_versions(&mut self, id: TestClockId, instant: OffsetDateTime) -> Result<Vec<HeldVersion>, Error> {
        let mut held: BTreeMap<PlanVersionId, HeldVersion> = BTreeMap::new();
        for version in self.each(|tx| tx.test_clocks().list_versions(id, instant))?.into_iter().flatten() {
            let known = held.entry(version.version).or_insert(version);
            known.renews |= version.renews;
            known.ends_at = known.ends_at.max(version.ends_at);
        }
        Ok(held.into_values().collect())
    }

    hand_on! { test_clocks =>
        fn insert(clock: &TestClock) -> ();
        fn get(id: TestClockId) -> TestClock;
        fn list() -> Vec<TestClock>;
        fn update(clock: &TestClock) -> ();
    }
}

impl UsageAlertRepo for OverLanes<'_, '_> {
    hand_on! { usage_alerts =>
        fn insert(alert: &UsageAlert) -> ();
        fn get(id: UsageAlertId) -> UsageAlert;
        fn list() -> Vec<UsageAlert>;
        fn delete(id: UsageAlertId) -> ();
    }

    refuse! {
        fn has_fired(firing: &Firing) -> bool;
        fn insert_firing(firing: &Firing, at: OffsetDateTime) -> ();
        fn mark(customer: CustomerKey) -> ();
    }
}
