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
    /// What it costs by the plan that the subscription was switched from; `None`: what its component says.
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

    /// Ends the prepaid units at `from` and leaves the time before it at what `component` says it costs, whatever the
    /// record's component is from then on.
    pub fn settle_prepaid(&mut self, component: &Component, from: OffsetDateTime) {
        self.end_prepaid(from);
        let full = self.full;
        for segment in self.prepaid.iter_mut().flat_map(|prepaid| &mut prepaid.segments) {
            segment.settled = Some(segment.price(component, &full));
        }
    }

    fn end_prepaid(&mut self, from: OffsetDateTime) {
        let Some(prepaid) = &mut self.prepaid else { return };
        prepaid.segments.retain(|segment| segment.period.start() < from);
        if let Some(last) = prepaid.segments.last_mut() {
            last.period = last.period.cut_at(from);
        }
    }

    /// Lets the last segment of prepaid units end with the record's time, and drops what lies behind it.
    pub fn reprice_prepaid(&mut self) {
        let Some(prepaid) = &mut self.prepaid else { return };
        prepaid.segments.retain(|segment| segment.period.start() < self.period.end());
        if let Some(last) = prepaid.segments.last_mut()
            && let Ok(period) = Period::new(last.period.start(), self.period.end())
        {
            last.period = period;
        }
    }

    /// What the prepaid units cost, unrounded, and how: prorated, each segment its part; full, the latest units.
    pub(super) fn prepaid_price(&self, component: &Component) -> (BigDecimal, Vec<PrepaidSegmentTrace>) {
        let (Some(prepaid), Some(charge)) = (&self.prepaid, &component.prepaid_charge) else {
            return (BigDecimal::zero(), Vec::new());
        };
        let traces = prepaid.segments.iter().map(|segment| segment.price(component, &self.full));
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
}
