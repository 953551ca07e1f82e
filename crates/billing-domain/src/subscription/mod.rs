//! Subscriptions: a customer's hold on a plan version for one period.

mod behavior;
mod filters;

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use crate::adjustment::AdjustmentState;
use crate::error::{Error, Noun, Refusal};
use crate::id::{CustomerKey, PlanId, PlanVersionId, SubscriptionId};
use crate::period::{Anchors, Cadence, Period, PlanDuration, Tile};
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
    /// Where the sequence of periods began: the start of the first subscription of the chain. For an add-on: where
    /// its parent's period began, which its intervals are counted from.
    pub anchor: OffsetDateTime,
    /// How many renewals lie between [`Subscription::anchor`] and this period.
    pub renewal: u32,
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
    /// Since when usage counts of metrics whose usage came along from the subscription that this one replaced.
    pub carried_usage: BTreeMap<crate::id::MetricId, OffsetDateTime>,
    /// The subscription that took its place by a switch of plans: its own id is no longer valid.
    pub replaced_by: Option<SubscriptionId>,
    /// The subscription that it is attached to, when it is an add-on's.
    pub parent: Option<SubscriptionId>,
    /// How it was cancelled, when it was.
    pub cancellation: Option<Cancellation>,
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

/// A period to come, and its place in the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextPeriod {
    /// The period and the uncut interval it is part of.
    pub tile: Tile,
    /// Where its sequence began.
    pub anchor: OffsetDateTime,
    /// Its number in the sequence.
    pub renewal: u32,
}

/// Where a subscription stands at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionStatus {
    /// Its period holds the instant.
    Active,
    /// Its period is over.
    Ended,
    /// Its period is to come.
    NotStarted,
}

impl SubscriptionStatus {
    /// Every status.
    pub const ALL: &'static [Self] = &[Self::Active, Self::Ended, Self::NotStarted];

    /// The text on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Ended => "ended",
            Self::NotStarted => "not_started",
        }
    }
}

impl Subscription {
    /// Where it stands at `now`. One with an empty period has ended from its start on.
    pub fn status(&self, now: OffsetDateTime) -> SubscriptionStatus {
        if now < self.period.start() {
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

    /// Where its reset and invoicing intervals are counted from: its own start, for an add-on its parent's.
    pub fn intervals_from(&self) -> OffsetDateTime {
        if self.is_addon() { self.anchor } else { self.period.start() }
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

    /// Where the usage of a metric begins that counts in the reset interval which starts at `start`: earlier in the
    /// first one, when usage was carried over.
    pub fn usage_start(&self, metric: crate::id::MetricId, start: OffsetDateTime) -> OffsetDateTime {
        let carried = self.carried_usage.get(&metric).filter(|_| start == self.period.start());
        carried.copied().unwrap_or(start)
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
        let goes_on =
            |own: &&Component| next.component_of(own.metric).is_some_and(|next| next.prepaid_charge.is_some());
        let held = version.components.iter().filter(goes_on);
        held.filter_map(|own| Some((own.metric, self.prepaid_units_of(own)?))).collect()
    }

    /// The period that follows this one when it renews: `None` for a plan without duration.
    ///
    /// The sequence goes on from its own beginning, so that a subscription of the 31st never drifts to the
    /// 28th. One that was given an end of its own starts a new sequence there.
    pub fn next_period(&self, duration: Option<PlanDuration>, anchors: Anchors) -> Option<NextPeriod> {
        let duration = duration?;
        let cadence = Cadence { start: self.anchor, duration, anchors };
        let next = cadence.period(self.renewal + 1);
        if next.period.start() == self.period.end() {
            return Some(NextPeriod { tile: next, anchor: self.anchor, renewal: self.renewal + 1 });
        }
        let anchor = self.period.end();
        Some(NextPeriod { tile: Cadence { start: anchor, duration, anchors }.period(0), anchor, renewal: 0 })
    }

    /// Ends it at `now`, or at its start when that is still to come, for good.
    pub fn cancel(&mut self, cancellation: Cancellation, now: OffsetDateTime) {
        self.period = self.period.cut_at(now.max(self.period.start()));
        self.auto_renew = false;
        self.cancellation = Some(cancellation);
    }

    /// Moves on to `next`, with nothing billed yet.
    pub fn enter(&mut self, next: &NextPeriod) {
        self.period = next.tile.period;
        self.full = next.tile.full;
        self.anchor = next.anchor;
        self.renewal = next.renewal;
        self.settled = Settled::default();
        self.carried_usage.clear();
    }

    /// Moves an add-on on to the period that its parent has entered, with nothing billed yet.
    pub fn enter_with(&mut self, parent: &Self) {
        self.period = parent.period;
        self.full = parent.full;
        self.anchor = parent.period.start();
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
