//! Price adjustments: what makes a subscription's period dearer or cheaper as a whole.
//!
//! An adjustment says what the period costs in all, T, once its charges add up to C. Each invoice of the period
//! then carries round(T) less what its invoices gave before, spread over its lines. So at the end charges and
//! adjustments add up to T, however many invoices there were and in whatever portions the charges came.
//!
//! Source: `docs/pricing.md`, "Adjustments".

use bigdecimal::{BigDecimal, One, Zero};
use serde::{Deserialize, Serialize};

use crate::decimal;
use crate::money::{round_half_away_from_zero, spread};
use crate::period::Fraction;

/// How the price of a period follows from its charges. Amounts are in major units.
///
/// ```
/// use billing_domain::adjustment::{AdjustmentState, PriceAdjustment, Span};
/// use billing_domain::{decimal::plain, period::Fraction, BigDecimal};
///
/// let discount = PriceAdjustment::Fixed { amount: BigDecimal::from(-20) };
/// let span = Span { fraction: Fraction::ONE, last: true };
/// let mut state = AdjustmentState::default();
///
/// // The discount is worth 20, but a period never costs less than nothing: 15 of it fit the first invoice ...
/// let first = discount.portions(&[BigDecimal::from(15)], &mut state, &span, 2);
/// assert_eq!(plain(&first[0]), "-15");
/// // ... and the rest waits for the charges to come.
/// let second = discount.portions(&[BigDecimal::from(60), BigDecimal::from(40)], &mut state, &span, 2);
/// assert_eq!(second.iter().map(plain).collect::<Vec<_>>(), ["-3", "-2"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PriceAdjustment {
    /// So many percent more, or less: -10 is ten percent off. Below -100 the period costs nothing.
    Percentage {
        /// The percentage.
        #[serde(with = "decimal::number")]
        percent: BigDecimal,
    },
    /// So much more, or less, for a full period; a discount stops at a price of 0.
    Fixed {
        /// The amount for a full period.
        #[serde(with = "decimal::number")]
        amount: BigDecimal,
    },
    /// What a full period costs, whatever its charges.
    PriceOverride {
        /// The amount for a full period.
        #[serde(with = "decimal::number")]
        amount: BigDecimal,
    },
}

/// The part of a subscription's period that an invoice knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The period as a part of its full interval: fixed and override amounts are prorated by it.
    pub fraction: Fraction,
    /// Whether this is the period's last invoice. Only that one may carry an override's top-up.
    pub last: bool,
}

/// What the invoices of one period gave so far. Starts at nothing; keep it with the subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdjustmentState {
    /// All charge lines, in whole minor units.
    #[serde(with = "decimal::number")]
    pub charges: BigDecimal,
    /// All adjustments, in whole minor units.
    #[serde(with = "decimal::number")]
    pub given: BigDecimal,
}

impl PriceAdjustment {
    /// What the period costs, T, when its charges add up to `charges`, C. Unrounded.
    ///
    /// | kind | T |
    /// |---|---|
    /// | `percentage` p | C x (1 + p / 100), at least 0 |
    /// | `fixed` a | C + a, and a discount stops at 0 |
    /// | `price_override` a | a; less than that while charges have not reached it and more invoices follow |
    ///
    /// - **Units:** major units in and out.
    /// - **Errors:** none.
    /// - **Source:** `docs/pricing.md`, "Adjustments".
    ///
    /// Surprising: charges below 0 (a period whose refunds outweigh its fees) are scaled by a percentage and
    /// left alone by a fixed discount, so that no rule swallows a refund.
    pub fn target(&self, charges: &BigDecimal, span: &Span) -> BigDecimal {
        let zero = BigDecimal::zero();
        match self {
            Self::Percentage { percent } => {
                let factor = BigDecimal::one() + percent * BigDecimal::new(1.into(), 2);
                charges * factor.max(zero)
            }
            Self::Fixed { amount } => {
                let floor = charges.min(&zero).clone();
                (charges + span.fraction.of(amount)).max(floor)
            }
            Self::PriceOverride { amount } => {
                let target = span.fraction.of(amount);
                if span.last { target } else { target.min(charges.clone()) }
            }
        }
    }

    /// The adjustment that an invoice owes whose charge lines add up to `lines`: round(T) - C - given.
    ///
    /// It changes nothing; [`PriceAdjustment::portions`] also spreads it and remembers.
    pub fn due(&self, lines: &BigDecimal, state: &AdjustmentState, span: &Span, decimals: u8) -> BigDecimal {
        let charges = &state.charges + lines;
        round_half_away_from_zero(&self.target(&charges, span), decimals) - &charges - &state.given
    }

    /// The adjustment of each charge line of an invoice, in their order; `state` moves on by them.
    ///
    /// - **Units:** `lines` in whole minor units, before adjustment; so are the answers.
    /// - **Errors:** none.
    /// - **Source:** `docs/pricing.md`, "Adjustments".
    ///
    /// A percentage falls on each line by itself, rounded as a running sum. A fixed amount or an override is
    /// spread in proportion to the lines' sizes. An invoice without lines has nowhere to put what is due: it
    /// stays due for the next one.
    pub fn portions(
        &self,
        lines: &[BigDecimal],
        state: &mut AdjustmentState,
        span: &Span,
        decimals: u8,
    ) -> Vec<BigDecimal> {
        let portions = match self {
            Self::Percentage { .. } => self.line_by_line(lines, state, span, decimals),
            Self::Fixed { .. } | Self::PriceOverride { .. } => {
                let due = self.due(&lines.iter().sum(), state, span, decimals);
                spread(&due, lines, decimals)
            }
        };
        state.charges += lines.iter().sum::<BigDecimal>();
        state.given += portions.iter().sum::<BigDecimal>();
        portions
    }

    fn line_by_line(
        &self,
        lines: &[BigDecimal],
        state: &AdjustmentState,
        span: &Span,
        decimals: u8,
    ) -> Vec<BigDecimal> {
        let mut running = state.clone();
        let mut portion = |line: &BigDecimal| {
            let due = self.due(line, &running, span, decimals);
            running.charges += line;
            running.given += &due;
            due
        };
        lines.iter().map(&mut portion).collect()
    }
}

#[cfg(test)]
mod tests {}
