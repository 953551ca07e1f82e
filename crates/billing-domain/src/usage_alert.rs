//! Usage alerts: of what an organization wants to be told once, when a figure of a customer's reaches a threshold.

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Zero};
use time::OffsetDateTime;

use crate::customer::{Customer, CustomerId};
use crate::id::{CustomerKey, MetricId, PlanVersionId, SubscriptionId, UsageAlertId};

/// Most usage alerts of one organization.
pub const USAGE_ALERTS_MAX: usize = 1_000;

choices! {
    /// Which figure an alert looks at.
    pub AlertKind {
        /// The usage of a metric in the reset interval that runs: reached from below.
        MetricUsage = "metric_usage",
        /// What the draft invoice of the running period comes to: reached from below.
        Spend = "spend",
        /// What is left of credits: reached from above.
        CreditBalance = "credit_balance",
        /// What is left of the prepaid units of a metric: reached from above.
        PrepaidUnits = "prepaid_units",
    }
}

choices! {
    /// What a threshold is counted in.
    pub AlertUnit {
        /// In what the figure is counted in.
        Absolute = "absolute",
        /// In percent of the usage from which on there is no access.
        PercentOfLimit = "percent_of_limit",
        /// In percent of the usage that is free.
        PercentOfFree = "percent_of_free",
    }
}

/// Whom an alert is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertScope {
    /// Every customer.
    Everybody,
    /// One customer.
    Customer(CustomerId),
    /// Whoever holds this version of a plan.
    PlanVersion(PlanVersionId),
}

/// A figure and a threshold that it is held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageAlert {
    /// Its id.
    pub id: UsageAlertId,
    /// Which figure.
    pub kind: AlertKind,
    /// Of which metric, where the kind is about one.
    pub metric: Option<MetricId>,
    /// Where it is reached.
    pub threshold: BigDecimal,
    /// What the threshold is counted in.
    pub unit: AlertUnit,
    /// In which currency the figure is, where it is an amount.
    pub currency_code: Option<String>,
    /// Whom it is about.
    pub scope: AlertScope,
    /// When it was made, in real time.
    pub created_at: OffsetDateTime,
}

impl AlertKind {
    /// Whether it is about a metric.
    pub fn has_metric(self) -> bool {
        matches!(self, Self::MetricUsage | Self::PrepaidUnits)
    }

    /// Whether its figure is what is left of something, so that it is reached from above.
    pub fn is_remainder(self) -> bool {
        matches!(self, Self::CreditBalance | Self::PrepaidUnits)
    }
}

impl UsageAlert {
    /// Whether the threshold is reached by `value`, where `whole` is what percents are of; of nothing there are none.
    pub fn is_reached(&self, value: &BigDecimal, whole: Option<&BigDecimal>) -> bool {
        match self.unit {
            AlertUnit::Absolute if self.kind.is_remainder() => *value <= self.threshold,
            AlertUnit::Absolute => *value >= self.threshold,
            AlertUnit::PercentOfLimit | AlertUnit::PercentOfFree => whole.is_some_and(|whole| {
                *whole > BigDecimal::zero() && value * BigDecimal::from(100) >= whole * &self.threshold
            }),
        }
    }

    /// The usage from which on the threshold is reached, of a metric of which so many units are prepaid and where `whole` is what
    /// percents are of; `None`: no usage reaches it.
    pub fn usage_reaching(&self, prepaid: Option<&BigDecimal>, whole: Option<&BigDecimal>) -> Option<BigDecimal> {
        match (self.kind, self.unit) {
            (AlertKind::Spend | AlertKind::CreditBalance, _) => None,
            (AlertKind::PrepaidUnits, _) => prepaid.map(|prepaid| prepaid - &self.threshold),
            (AlertKind::MetricUsage, AlertUnit::Absolute) => Some(self.threshold.clone()),
            (AlertKind::MetricUsage, AlertUnit::PercentOfLimit | AlertUnit::PercentOfFree) => {
                let whole = whole.filter(|whole| **whole > BigDecimal::zero())?;
                // A hundredth is exact.
                Some(whole * &self.threshold * BigDecimal::new(1.into(), 2))
            }
        }
    }

    /// Whether it is about this customer, whatever they hold.
    pub fn may_concern(&self, customer: &CustomerId) -> bool {
        match &self.scope {
            AlertScope::Customer(only) => only == customer,
            AlertScope::Everybody | AlertScope::PlanVersion(_) => true,
        }
    }
}

/// What an alert fires for at most once: a customer and an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Firing {
    /// The customer.
    pub customer: CustomerKey,
    /// The alert.
    pub alert: UsageAlertId,
    /// Where the interval begins.
    pub interval_start: OffsetDateTime,
}

/// How far a customer's events may go before any of them could make an alert fire, if nothing else of the customer changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlertHeadroom {
    /// By event name: no event with an arrival number up to this one can; 0: any event can. Those of a name that is not here cannot,
    /// however many there are.
    pub until_arrivals: BTreeMap<String, u64>,
    /// From when on that holds, in the customer's own time.
    pub from: OffsetDateTime,
    /// Until when that holds, in the customer's own time; then no longer.
    pub until: OffsetDateTime,
}

impl AlertHeadroom {
    /// Headroom from an instant until another one.
    pub fn new(until_arrivals: BTreeMap<String, u64>, (from, until): (OffsetDateTime, OffsetDateTime)) -> Self {
        Self { until_arrivals, from, until }
    }

    /// Whether it is about every event that is stored by now: whatever the figures look at, no alert fires before its end.
    fn is_of_all(&self) -> bool {
        self.until_arrivals.values().all(|until| *until > 0)
    }
}

/// What a look at a customer's figures came to, besides what it told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlertOutlook {
    /// How far events may go before any of them could make an alert fire; `None`: any event could.
    pub headroom: Option<AlertHeadroom>,
    /// Whether a threshold is reached by events that are dated ahead, and will be without another one.
    pub is_reached_ahead: bool,
}

impl AlertOutlook {
    /// Until when no event that is stored by now makes an alert fire, whenever it is dated; `None`: any may.
    pub fn quiet_until(&self) -> Option<OffsetDateTime> {
        self.headroom.as_ref().filter(|headroom| headroom.is_of_all()).map(|headroom| headroom.until)
    }
}

/// When a customer's figures are to be looked at again though nothing else happens: events that are dated ahead count from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaterLook {
    /// In the customer's own time.
    pub at: OffsetDateTime,
    /// Whether the customer lives by a test clock.
    pub is_on_clock: bool,
}

impl LaterLook {
    /// A look at an instant of the customer's own time, which is that of a test clock or not.
    pub fn new(at: OffsetDateTime, is_on_clock: bool) -> Self {
        Self { at, is_on_clock }
    }
}

/// An alert whose threshold was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TriggeredAlert {
    /// The alert.
    pub alert: UsageAlert,
    /// Whose figure it is.
    pub customer: Customer,
    /// Of which subscription's; `None`: of all that the customer has.
    pub subscription: Option<SubscriptionId>,
    /// Since when the figure counts. The alert fires once for each of these.
    pub interval_start: OffsetDateTime,
    /// When it begins anew; `None`: with whatever is granted next.
    pub interval_end: Option<OffsetDateTime>,
    /// The figure.
    pub value: BigDecimal,
    /// What the threshold is in percent of.
    pub whole: Option<BigDecimal>,
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_threshold_is_reached_from_its_side() {
        use AlertKind as Kind;
        use AlertUnit as Unit;
        #[rustfmt::skip]
        let cases = [
            // kind,            unit,                 threshold, value, whole,      reached, why
            (Kind::MetricUsage,   Unit::Absolute,       10,       9,    None,        false,  "below"),
            (Kind::MetricUsage,   Unit::Absolute,       10,       10,   None,        true,   "at it"),
            (Kind::Spend,         Unit::Absolute,       10,       11,   None,        true,   "above"),
            (Kind::CreditBalance, Unit::Absolute,       10,       11,   None,        false,  "more is left"),
            (Kind::CreditBalance, Unit::Absolute,       10,       10,   None,        true,   "so much is left"),
            (Kind::PrepaidUnits,  Unit::Absolute,       0,        0,    None,        true,   "nothing is left"),
            (Kind::MetricUsage,   Unit::PercentOfLimit, 80,       79,   Some(100),   false,  "below its part"),
            (Kind::MetricUsage,   Unit::PercentOfLimit, 80,       80,   Some(100),   true,   "at its part"),
            (Kind::MetricUsage,   Unit::PercentOfFree,  50,       3,    Some(7),     false,  "42 %"),
            (Kind::MetricUsage,   Unit::PercentOfFree,  150,      11,   Some(7),     true,   "more than all of it"),
            (Kind::MetricUsage,   Unit::PercentOfLimit, 80,       900,  None,        false,  "there is no limit"),
            (Kind::MetricUsage,   Unit::PercentOfFree,  80,       900,  Some(0),     false,  "nothing has no parts"),
        ];
        for (kind, unit, threshold, value, whole, is_reached, why) in cases {
            let alert = UsageAlert {
                id: Uuid::nil().into(),
                kind,
                metric: None,
                threshold: threshold.into(),
                unit,
                currency_code: None,
                scope: AlertScope::Everybody,
                created_at: OffsetDateTime::UNIX_EPOCH,
            };
            let (value, whole) = (BigDecimal::from(value), whole.map(BigDecimal::from));
            assert_eq!(alert.is_reached(&value, whole.as_ref()), is_reached, "{why}");
            if kind.has_metric() {
                // What is left of prepaid units is reached from above, by their usage from below.
                let prepaid = BigDecimal::from(100);
                let usage = if kind.is_remainder() { &prepaid - &value } else { value };
                let reaching = alert.usage_reaching(Some(&prepaid), whole.as_ref());
                assert_eq!(reaching.is_some_and(|reaching| usage >= reaching), is_reached, "{why}, by usage");
            }
        }
    }
}
