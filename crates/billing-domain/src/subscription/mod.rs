//! Subscriptions: a customer's hold on a plan version for one period.

mod behavior;
mod filters;

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::adjustment::AdjustmentState;
use crate::error::{Error, Noun, Refusal};
use crate::id::{CustomerKey, PlanId, PlanVersionId, SubscriptionId};
use crate::period::{Anchors, Cadence, Calendar, Period, PlanDuration, Tile, instant};
use crate::plan::{Component, PlanVersion};
use crate::tax::TaxState;

pub use behavior::{Cancellation, FlatFeeBehavior, InvoicingBehavior, SwitchUsageBehavior, UsageBehavior};
pub use filters::{FILTERS_MAX, SubscriptionFilters};

/// One customer's hold on one plan version for one period. A renewal is a new subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Its id; a renewal gets a new one.
    pub id: SubscriptionId,
    /// Whose it is.
    pub customer: CustomerKey,
    /// The plan.
    pub plan: PlanId,
    /// The version, which never changes.
    pub version: PlanVersionId,
    /// From start to end, half open.
    pub period: Period,
    /// The uncut interval that the period is part of: what a full price is for.
    pub full: Period,
    /// What its reset and invoicing intervals are counted by; an add-on has its parent's.
    pub calendar: Calendar,
    /// When the call was made that began its chain of renewals and switches, in the customer's time: no invoice of the
    /// chain is dated before.
    pub chain_began_at: OffsetDateTime,
    /// Whether it renews at its end.
    pub auto_renew: bool,
    /// Whether a renewal has taken its place already.
    pub is_renewed: bool,
    /// False when it came from a renewal.
    pub is_new: bool,
    /// Multiplies recurring charges.
    pub quantity: u32,
    /// Only events with all of these properties count.
    pub filters: SubscriptionFilters,
    /// The caller's own, given back as it came.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// Units of prepaid components, where they differ from the version's default.
    pub prepaid_units: BTreeMap<crate::id::MetricId, BigDecimal>,
    /// The reset intervals that were running when this one replaced another subscription, by metric: their usage came
    /// along, and they end where they would have ended.
    pub carried_usage: BTreeMap<crate::id::MetricId, CarriedUsage>,
    /// The subscription that took its place by a switch of plans: its own id is no longer valid.
    pub replaced_by: Option<SubscriptionId>,
    /// The subscription that it is attached to, when it is an add-on's.
    pub parent: Option<SubscriptionId>,
    /// How it was cancelled, when it was.
    pub cancellation: Option<Cancellation>,
    /// The end that it had before it was cancelled.
    pub uncancelled_end: Option<OffsetDateTime>,
    /// What its invoices so far add up to.
    pub settled: Settled,
    /// When it was made, in the customer's time.
    pub created_at: OffsetDateTime,
}

/// What the invoices of one subscription add up to so far: the memory of cumulative rounding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Charges and price adjustments.
    pub adjustment: AdjustmentState,
    /// Tax.
    pub tax: TaxState,
}

/// A reset interval that goes on under the subscription that a switch put in the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedUsage {
    /// Since when its usage counts.
    #[serde(with = "instant")]
    pub start: OffsetDateTime,
    /// Where it ends, when the subscription lasts that long; `None`: as late as the subscription does.
    #[serde(with = "instant::optional")]
    pub end: Option<OffsetDateTime>,
    /// The uncut interval: what a full price is for.
    pub full: Period,
}

impl CarriedUsage {
    /// The interval within a subscription that has this period.
    pub fn within(&self, subscription: &Period) -> Tile {
        let end = self.end.map_or(subscription.end(), |end| end.min(subscription.end()));
        Tile { period: Period::new(self.start, end).unwrap_or(Period::at(self.start)), full: self.full }
    }
}

/// A period to come, and what its intervals are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NextPeriod {
    /// The period and the uncut interval it is part of.
    pub tile: Tile,
    /// Its calendar.
    pub calendar: Calendar,
}

choices! {
    /// Where a subscription stands at an instant.
    pub SubscriptionStatus {
        /// Its period holds the instant.
        Active = "active",
        /// Its period is over.
        Ended = "ended",
        /// Its period is to come.
        NotStarted = "not_started",
    }
}

impl Subscription {
    /// Where it stands at `now`. One with an empty period has ended, also before its start: nothing of it is to come.
    pub fn status(&self, now: OffsetDateTime) -> SubscriptionStatus {
        if self.period.is_empty() {
            SubscriptionStatus::Ended
        } else if now < self.period.start() {
            SubscriptionStatus::NotStarted
        } else if self.period.contains(now) {
            SubscriptionStatus::Active
        } else {
            SubscriptionStatus::Ended
        }
    }

    /// Whether it is an add-on, attached to another subscription.
    pub fn is_addon(&self) -> bool {
        self.parent.is_some()
    }

    /// Whether it can still be changed at `now`.
    ///
    /// # Errors
    /// [`Error::NotFound`] when a switch has put another in its place: its id is no longer valid, also for those who found
    /// it before the switch. [`Refusal::AlreadyEnded`] when it has ended otherwise.
    pub fn check_open(&self, now: OffsetDateTime) -> Result<(), Error> {
        if self.replaced_by.is_some() {
            return Err(Error::NotFound(Noun::Subscription));
        }
        if self.status(now) == SubscriptionStatus::Ended {
            return Err(Refusal::AlreadyEnded.into());
        }
        Ok(())
    }

    /// Whether it will be renewed at its end and has not been yet.
    pub fn awaits_renewal(&self) -> bool {
        self.auto_renew && !self.is_renewed
    }

    /// Whether it is held after `instant`: it ends later, or awaits renewal, and no switch has put another in its place.
    pub fn is_current(&self, instant: OffsetDateTime) -> bool {
        self.replaced_by.is_none() && (self.period.end() > instant || self.awaits_renewal())
    }

    /// How many units of a prepaid component it has: its own number, otherwise the version's.
    pub fn prepaid_units_of(&self, component: &Component) -> Option<BigDecimal> {
        let charge = component.prepaid_charge.as_ref()?;
        self.prepaid_units.get(&component.metric).or(charge.units.as_ref()).cloned()
    }

    /// The units that go along when `next` takes the place of its `version`: of every component that both prepay, as
    /// many as it has, whether they were named or are the version's.
    pub fn prepaid_units_under(
        &self,
        version: &PlanVersion,
        next: &PlanVersion,
    ) -> BTreeMap<crate::id::MetricId, BigDecimal> {
        let goes_on = |component: &&Component| {
            next.component_of(component.metric).is_some_and(|next| next.prepaid_charge.is_some())
        };
        let held = version.components.iter().filter(goes_on);
        held.filter_map(|component| Some((component.metric, self.prepaid_units_of(component)?))).collect()
    }

    /// The period that follows this one when it renews: `None` for a plan without duration.
    ///
    /// It goes on by the same calendar, so that a subscription of the 31st never drifts to the 28th. One that was given an
    /// end off its calendar starts a new one there.
    pub fn next_period(&self, duration: Option<PlanDuration>, anchors: Anchors) -> Option<NextPeriod> {
        let duration = duration?;
        let start = self.period.end();
        let cadence = Cadence { start, day: self.calendar.day_of(start), duration, anchors };
        Some(NextPeriod { tile: cadence.period(0), calendar: cadence.calendar() })
    }

    /// The calendar that it has under a plan that takes the place of its own within its period.
    pub fn calendar_under(&self, duration: Option<PlanDuration>, anchors: Anchors) -> Calendar {
        let start = self.calendar.start;
        let cadence = duration.map(|duration| Cadence { start, day: self.calendar.day_of(start), duration, anchors });
        cadence.map_or(Calendar::of_single_period(start), |cadence| cadence.calendar())
    }

    /// Its period as it was before it was cancelled.
    pub fn uncancelled_period(&self) -> Period {
        let end = self.uncancelled_end.unwrap_or(self.period.end());
        Period::new(self.period.start(), end).unwrap_or(self.period)
    }

    /// What the cancellation makes of its fees, when there was one that says so.
    pub fn flat_fee_behavior(&self) -> Option<FlatFeeBehavior> {
        self.cancellation.and_then(|cancellation| cancellation.flat_fee_behavior)
    }

    /// Whether its cancellation dropped the usage that was not billed.
    pub fn drops_usage(&self) -> bool {
        self.cancellation.is_some_and(|cancellation| cancellation.usage_behavior == UsageBehavior::BillNone)
    }

    /// Ends it at `now`, or at its start when that is still to come, for good.
    pub fn cancel(&mut self, cancellation: Cancellation, now: OffsetDateTime) {
        self.uncancelled_end = Some(self.period.end());
        self.period = self.period.cut_at(now.max(self.period.start()));
        self.auto_renew = false;
        self.cancellation = Some(cancellation);
    }

    /// Moves on to `next`, with nothing billed yet.
    pub fn enter(&mut self, next: &NextPeriod) {
        self.period = next.tile.period;
        self.full = next.tile.full;
        self.calendar = next.calendar;
        self.settled = Settled::default();
        self.carried_usage.clear();
    }

    /// Moves an add-on on to the period that its parent has entered, with nothing billed yet.
    pub fn enter_with(&mut self, parent: &Self) {
        self.period = parent.period;
        self.full = parent.full;
        self.calendar = parent.calendar;
        self.settled = Settled::default();
        self.carried_usage.clear();
    }

    /// Whether the two would count the same events of the same plan twice: same customer, same plan (any
    /// version), periods that meet, and one set of filters part of the other. Add-ons overlap nothing.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.customer == other.customer
            && !self.is_addon()
            && !other.is_addon()
            && self.plan == other.plan
            && self.period.overlaps(&other.period)
            && (self.filters.is_subset_of(&other.filters) || other.filters.is_subset_of(&self.filters))
    }
}
