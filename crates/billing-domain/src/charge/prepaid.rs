//! Prepaid units: how many of them in which part of a record's time, and what they cost.

use bigdecimal::{BigDecimal, Zero};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Billed, BillingRecord};
use crate::decimal;
use crate::invoice::PrepaidSegmentTrace;
use crate::period::Period;
use crate::plan::{ChargeBehavior, Component};

/// The prepaid units of one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepaid {
    /// How many units in which part of the record's time; the parts tile it.
    pub segments: Vec<PrepaidSegment>,
    /// What has been billed of them.
    pub billed: Billed,
}

/// So many prepaid units for a part of a record's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrepaidSegment {
    /// The units.
    #[serde(with = "decimal::number")]
    pub units: BigDecimal,
    /// The part.
    pub period: Period,
    /// What it cost on the subscription that a switch put this one in the place of. It was billed there; usage that came
    /// along is held against it here. `None`: it costs what its component says, and is billed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<PrepaidSegmentTrace>,
}

impl PrepaidSegment {
    /// Units that cost what their component says.
    pub fn new(units: BigDecimal, period: Period) -> Self {
        Self { units, period, settled: None }
    }

    /// What it costs as a part of the interval `full`, where a switch has not settled that.
    fn price(&self, component: &Component, full: &Period) -> PrepaidSegmentTrace {
        self.settled.clone().unwrap_or_else(|| PrepaidSegmentTrace {
            window: self.period,
            fraction: self.period.fraction_of(full),
            rating: component.tiers.rate(&self.units),
        })
    }
}

impl BillingRecord {
    /// Has `units` prepaid from `now` on: the segment that runs then ends, and another takes the rest.
    pub fn change_prepaid_units(&mut self, units: &BigDecimal, now: OffsetDateTime) {
        let from = now.max(self.period.start());
        self.end_prepaid(from);
        if let (Some(prepaid), Ok(period)) = (&mut self.prepaid, Period::new(from, self.period.end())) {
            prepaid.segments.push(PrepaidSegment::new(units.clone(), period));
        }
    }

    /// Ends prorated prepaid units at `from`, where a switch puts another record in this one's place, and takes full ones
    /// back whole.
    ///
    /// What is left was paid for: the spans, each with its price, that usage which goes on is held against.
    pub fn settle_prepaid(&mut self, component: &Component, from: OffsetDateTime) -> Vec<PrepaidSegment> {
        self.end_prepaid(from);
        let full = self.full;
        let is_full = component.prepaid_charge.as_ref().is_some_and(|charge| charge.behavior == ChargeBehavior::Full);
        let Some(prepaid) = &mut self.prepaid else { return Vec::new() };
        if is_full {
            prepaid.segments.retain(|segment| segment.settled.is_some());
        }
        let paid = prepaid.segments.iter();
        paid.map(|segment| PrepaidSegment { settled: Some(segment.price(component, &full)), ..segment.clone() })
            .collect()
    }

    fn end_prepaid(&mut self, from: OffsetDateTime) {
        let Some(prepaid) = &mut self.prepaid else { return };
        prepaid.segments.retain(|segment| segment.period.start() < from || segment.settled.is_some());
        if let Some(last) = prepaid.segments.last_mut().filter(|last| last.settled.is_none()) {
            last.period = last.period.cut_at(from);
        }
    }

    /// Lets the last segment of prepaid units end with the record's time, and drops what lies behind it.
    pub fn reprice_prepaid(&mut self) {
        let Some(prepaid) = &mut self.prepaid else { return };
        prepaid.segments.retain(|segment| segment.period.start() < self.period.end());
        if let Some(last) = prepaid.segments.last_mut().filter(|last| last.settled.is_none())
            && let Ok(period) = Period::new(last.period.start(), self.period.end())
        {
            last.period = period;
        }
    }

    /// What the prepaid units cost, unrounded, and how: prorated, each segment its part; full, the latest units. What was
    /// billed before a switch is not part of it.
    pub(super) fn prepaid_price(&self, component: &Component) -> (BigDecimal, Vec<PrepaidSegmentTrace>) {
        let (Some(prepaid), Some(charge)) = (&self.prepaid, &component.prepaid_charge) else {
            return (BigDecimal::zero(), Vec::new());
        };
        let unsettled = prepaid.segments.iter().filter(|segment| segment.settled.is_none());
        let traces = unsettled.map(|segment| segment.price(component, &self.full));
        match charge.behavior {
            ChargeBehavior::Prorate => {
                let traces: Vec<_> = traces.collect();
                (traces.iter().map(|trace| trace.fraction.of(&trace.rating.amount)).sum(), traces)
            }
            ChargeBehavior::Full => {
                let latest: Vec<_> = traces.rev().take(1).collect();
                (latest.iter().map(|trace| trace.rating.amount.clone()).sum(), latest)
            }
        }
    }

    /// What prepaid units cost that usage of this record is held against: its own, and those before a switch.
    pub(super) fn prepaid_in_all(&self, component: &Component) -> BigDecimal {
        let settled = self.prepaid.iter().flat_map(|prepaid| &prepaid.segments);
        let settled = settled.filter_map(|segment| segment.settled.as_ref());
        let before: BigDecimal = settled.map(|trace| trace.fraction.of(&trace.rating.amount)).sum();
        before + self.prepaid_price(component).0
    }
}
