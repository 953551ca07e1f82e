//! How a line came about: enough to compute it again by hand.

use bigdecimal::{BigDecimal, Zero};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::credit::Drawdown;
use crate::decimal;
use crate::id::{CreditId, MetricId, OneOffLineId};
use crate::metric::{CategoricalFilter, NumericFilter};
use crate::money;
use crate::period::{Fraction, Period, instant};
use crate::plan::{ChargeBehavior, ChargeTiming};
use crate::subscription::{FlatFeeBehavior, SubscriptionFilters};
use crate::tier::Rating;

/// How an exact amount became whole minor units: `amount` = round(`exact_so_far`) - `given_before`, where round() is at
/// least what was `forgiven`.
///
/// The parts of one charge are rounded together, so that what was given always adds up to the rounded whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rounding {
    /// All of the charge up to and with this line, unrounded.
    #[serde(with = "decimal::number")]
    pub exact_so_far: BigDecimal,
    /// What earlier lines of the same charge gave.
    #[serde(with = "decimal::number")]
    pub given_before: BigDecimal,
    /// What voided invoices gave of it: it does not come back. There only when it is not 0.
    #[serde(default, with = "decimal::number", skip_serializing_if = "Zero::is_zero")]
    pub forgiven: BigDecimal,
    /// Decimals of the currency's minor unit; ties go away from zero.
    #[serde(with = "decimal::integer")]
    pub decimals: u8,
    /// The result.
    #[serde(with = "decimal::number")]
    pub amount: BigDecimal,
}

impl Rounding {
    /// The next portion of what comes to `exact_so_far` in all.
    pub fn next(exact_so_far: BigDecimal, given_before: BigDecimal, forgiven: BigDecimal, decimals: u8) -> Self {
        let amount = money::portion_above(&exact_so_far, &given_before, &forgiven, decimals);
        Self { exact_so_far, given_before, forgiven, decimals, amount }
    }

    /// All of the charge up to and with this line in whole minor units, whatever was forgiven of it.
    pub fn price(&self) -> BigDecimal {
        money::round_half_away_from_zero(&self.exact_so_far, self.decimals)
    }
}

/// How a line came about: enough to compute it again by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trace {
    /// A fee by time: `unit_amount` x `quantity` x `fraction` (or the whole when `charge_behavior` is full).
    RecurringCharge {
        /// The charge.
        charge_name: String,
        /// What one full interval costs.
        #[serde(with = "decimal::number")]
        unit_amount: BigDecimal,
        /// The subscription's quantity.
        #[serde(with = "decimal::integer")]
        quantity: u32,
        /// Before or after the time it is for.
        charge_timing: ChargeTiming,
        /// Whether a cut interval costs less.
        charge_behavior: ChargeBehavior,
        /// What the cancellation of the subscription said instead.
        flat_fee_behavior: Option<FlatFeeBehavior>,
        /// The time charged so far.
        window: Period,
        /// `window` as a part of the full interval, in microseconds.
        fraction: Fraction,
        /// What full fees of the same interval came to before a switch of plans; there only when it is not 0.
        #[serde(default, with = "decimal::number", skip_serializing_if = "Zero::is_zero")]
        charged_before_switch: BigDecimal,
        /// From exact to minor units.
        rounding: Rounding,
    },
    /// Usage: the price of `quantity` by the tiers, less what was prepaid.
    UsageCharge {
        /// What was metered.
        metric: MetricTrace,
        /// The events' time.
        window: Period,
        /// How many events stand behind the quantity.
        #[serde(with = "decimal::integer")]
        event_count: u64,
        /// Of the customer's events those were there that had arrival numbers up to this one: what came later is late usage.
        #[serde(with = "decimal::integer")]
        last_arrival: u64,
        /// The usage since the start of the window.
        #[serde(with = "decimal::number")]
        quantity: BigDecimal,
        /// What was billed of it when the time was over; there only on a line for events that arrived later.
        #[serde(default, with = "decimal::optional_number", skip_serializing_if = "Option::is_none")]
        billed_before: Option<BigDecimal>,
        /// The walk through the tiers.
        rating: Rating,
        /// What the prepaid units cost; usage is charged only beyond it.
        #[serde(with = "decimal::number")]
        prepaid_amount: BigDecimal,
        /// From exact to minor units.
        rounding: Rounding,
    },
    /// What was billed of usage comes back: a switch handed the usage on to the new plan, which prices all of it.
    UsageHandedOn {
        /// What was metered.
        metric: MetricTrace,
        /// The time that it was billed for.
        window: Period,
        /// From exact, which is nothing, to minor units.
        rounding: Rounding,
    },
    /// Nothing: the custom metric had no usable result. The usage is billed when it has one.
    UsageNotBilled {
        /// What was metered.
        metric: MetricTrace,
        /// The events' time.
        window: Period,
        /// Why there is no result.
        reason: String,
    },
    /// Units paid in advance: the price of each segment's units, prorated when the charge says so.
    PrepaidUsageCharge {
        /// What is metered.
        metric: MetricTrace,
        /// Whether a cut interval costs less.
        charge_behavior: ChargeBehavior,
        /// The units and their time.
        segments: Vec<PrepaidSegmentTrace>,
        /// From exact to minor units.
        rounding: Rounding,
    },
    /// No charge of its own: it carries a price adjustment where no other line can.
    PlanAdjustment,
    /// Credits that paid a part of the invoice, in the order in which they were drawn.
    CreditApplied {
        /// Which, and how much.
        drawdowns: Vec<Drawdown>,
    },
    /// Something that is charged once: an amount that was named, or `quantity` x `unit_amount`.
    OneOff {
        /// The line, as it waited.
        one_off_line_id: OneOffLineId,
        /// How much was sold; there only where it is priced by the unit.
        #[serde(default, with = "decimal::optional_number", skip_serializing_if = "Option::is_none")]
        quantity: Option<BigDecimal>,
        /// What one of it costs; there only where it is priced by the unit.
        #[serde(default, with = "decimal::optional_number", skip_serializing_if = "Option::is_none")]
        unit_amount: Option<BigDecimal>,
        /// Whether sales tax is added.
        is_taxed: bool,
        /// When it was asked for, in the customer's own time.
        #[serde(with = "instant")]
        created_at: OffsetDateTime,
    },
    /// What the customer pays for a credit.
    CreditPurchase {
        /// The credit.
        credit_id: CreditId,
    },
    /// The invoice came to less than nothing: the difference became a credit.
    CreditGranted {
        /// The credit.
        credit_id: CreditId,
    },
}

/// A metric as it was when a line was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MetricTrace {
    /// Its id.
    pub metric_id: MetricId,
    /// Its name.
    pub metric_name: String,
    /// The events it counts.
    pub event_name: String,
    /// How it looks at them.
    pub metric_type: String,
    /// How they are aggregated.
    pub aggregation_type: String,
    /// What of them is aggregated.
    pub property_name: Option<String>,
    /// What the property of a gauge's event is.
    pub event_type: Option<String>,
    /// What one unit of a gauge is per, or the window of a rate.
    pub granularity: Option<String>,
    /// The buckets that a gauge is weighed by.
    pub proration: Option<String>,
    /// The query of a custom metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_sql: Option<String>,
    /// Which of them count, by the numbers they have.
    pub numeric_filters: Vec<NumericFilter>,
    /// Which of them count, by the texts they have.
    pub categorical_filters: Vec<CategoricalFilter>,
    /// Which of them count for the subscription.
    pub subscription_filters: SubscriptionFilters,
}

/// Prepaid units over a part of a reset interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PrepaidSegmentTrace {
    /// The part.
    pub window: Period,
    /// It as a part of the full interval.
    pub fraction: Fraction,
    /// The walk through the tiers for its units.
    pub rating: Rating,
}
