//! Tier rating: what a quantity costs.
//!
//! A [`TierSchedule`] is an ordered, gapless list of [`Tier`]s that was checked once; [`TierSchedule::rate`]
//! then cannot fail and answers an amount together with the walk that led to it.
//!
//! Source: `docs/pricing.md`, "Tiers", "Batches" and "Bulk".

mod rating;
mod schedule;

use bigdecimal::BigDecimal;
use serde::{Deserialize, Serialize};

use crate::decimal;

pub use rating::{Rating, StepKind, TierStep};
pub use schedule::{TIERS_MAX, TierFault, TierFaultCode, TierSchedule};

choices! {
    /// How a part of a batch is counted.
    ///
    /// ```
    /// use billing_domain::tier::BatchRounding;
    /// use billing_domain::{decimal::plain, BigDecimal};
    ///
    /// let batches = |rounding: BatchRounding| plain(&rounding.batches(&BigDecimal::from(50), &BigDecimal::from(100)));
    /// assert_eq!(batches(BatchRounding::RoundUp), "1");
    /// assert_eq!(batches(BatchRounding::RoundDown), "0");
    /// assert_eq!(batches(BatchRounding::RoundNearest), "1"); // a half goes up, not to even
    /// assert_eq!(batches(BatchRounding::NoRounding), "0.5");
    /// ```
    pub BatchRounding {
        /// A started batch is a whole one.
        RoundUp = "round_up",
        /// Only full batches count.
        RoundDown = "round_down",
        /// To the nearest batch; half a batch is a whole one.
        RoundNearest = "round_nearest",
        /// Parts count as parts.
        NoRounding = "no_rounding",
    }
}

impl BatchRounding {
    /// How many batches of `metric_units_per_batch` `quantity` is.
    pub fn batches(self, quantity: &BigDecimal, metric_units_per_batch: &BigDecimal) -> BigDecimal {
        let whole = match self {
            Self::RoundUp => decimal::Whole::Up,
            Self::RoundDown => decimal::Whole::Down,
            Self::RoundNearest => decimal::Whole::Nearest,
            Self::NoRounding => return decimal::divide(quantity, metric_units_per_batch),
        };
        decimal::divide_whole(quantity, metric_units_per_batch, whole)
    }
}

/// What a tier charges, in major units of the currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TierPrice {
    /// Once, as soon as the tier is entered.
    Flat {
        /// The amount.
        #[serde(with = "decimal::number")]
        cost: BigDecimal,
    },
    /// By batches of units inside the tier.
    PerUnit {
        /// The amount for one batch.
        #[serde(with = "decimal::number")]
        cost_per_batch: BigDecimal,
        /// Metric units in one batch, more than 0.
        #[serde(with = "decimal::number")]
        metric_units_per_batch: BigDecimal,
        /// How a part of a batch counts; none is [`BatchRounding::NoRounding`].
        #[serde(default)]
        batch_rounding: Option<BatchRounding>,
    },
    /// Nothing.
    Free,
}

/// One tier as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// Where it starts: the end of the tier before it, or that plus one. Both mean that the two touch.
    #[serde(with = "decimal::number")]
    pub range_start: BigDecimal,
    /// The last quantity inside; none is without end.
    #[serde(with = "decimal::optional_number", default)]
    pub range_end: Option<BigDecimal>,
    /// What it charges.
    pub price: TierPrice,
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
