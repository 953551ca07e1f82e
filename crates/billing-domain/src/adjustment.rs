//! Price adjustments: what makes a subscription's period dearer or cheaper as a whole.
//!
//! An adjustment says what the period costs in all, T, once its charges add up to C. Each invoice of the period
//! then carries round(T) less what its invoices gave before, spread over its lines. So at the end charges and
//! adjustments add up to T, however many invoices there were and in whatever portions the charges came.
//!
//! Source: `docs/pricing.md`, "Adjustments".

use bigdecimal::{BigDecimal, One, Signed, Zero};
use serde::{Deserialize, Serialize};

use crate::decimal;
use crate::money::{portion, spread};
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
    /// What of both was on voided invoices, or was taken back by credit notes.
    pub forgiven: Forgiven,
}

/// What voided invoices gave of one period: nobody pays it, so it does not come back, and what they adjusted stays as it
/// was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgiven {
    /// Charge lines, in whole minor units.
    #[serde(with = "decimal::number")]
    pub charges: BigDecimal,
    /// Their adjustments, in whole minor units.
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

    /// [`PriceAdjustment::target`] of a period of which voided invoices forgave a part: not less than that part, and of a
    /// fixed amount what they gave stays given, although the period turns out to have less of it.
    pub fn target_above(&self, charges: &BigDecimal, span: &Span, forgiven: &Forgiven) -> BigDecimal {
        if *forgiven == Forgiven::default() {
            return self.target(charges, span);
        }
        let target = match self {
            Self::Fixed { amount } => {
                let prorated = span.fraction.of(amount);
                let given = forgiven.given.clone();
                let due = if amount.is_negative() { prorated.min(given) } else { prorated.max(given) };
                (charges + due).max(charges.min(&BigDecimal::zero()).clone())
            }
            Self::Percentage { .. } | Self::PriceOverride { .. } => self.target(charges, span),
        };
        target.max(&forgiven.charges + &forgiven.given)
    }

    /// The adjustment that an invoice owes whose charge lines add up to `lines`: round(T) - C - given.
    ///
    /// It changes nothing; [`PriceAdjustment::portions`] also spreads it and remembers.
    pub fn due(&self, lines: &BigDecimal, state: &AdjustmentState, span: &Span, decimals: u8) -> BigDecimal {
        let charges = &state.charges + lines;
        portion(&self.target_above(&charges, span, &state.forgiven), &(&charges + &state.given), decimals)
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decimal::plain;
    use crate::decimal::tests::{laws, number_of};
    use crate::money::round_half_away_from_zero;

    fn percentage(percent: &str) -> PriceAdjustment {
        PriceAdjustment::Percentage { percent: number_of(percent) }
    }

    fn fixed(amount: &str) -> PriceAdjustment {
        PriceAdjustment::Fixed { amount: number_of(amount) }
    }

    fn price_override(amount: &str) -> PriceAdjustment {
        PriceAdjustment::PriceOverride { amount: number_of(amount) }
    }

    fn days(numerator: i128, denominator: i128) -> Fraction {
        Fraction { numerator, denominator }
    }

    #[test]
    fn adjusts_one_invoice() {
        let (whole, half) = (Fraction::ONE, days(15, 30));
        #[rustfmt::skip]
        let cases: [(PriceAdjustment, Fraction, &[&str], &[&str], &str); 15] = [
            // adjustment,         period, lines,               adjustments,              why
            (percentage("-10"),    whole,  &["30", "70"],       &["-3", "-7"],            "ten percent off each line"),
            (percentage("-1"),     whole,  &["0.40", "0.40"],   &["0", "-0.01"],          "0.792 is 0.79: the second line bears the cent"),
            (percentage("15"),     half,   &["10"],             &["1.5"],                 "a percentage is not prorated: the charges are"),
            (percentage("-150"),   whole,  &["10"],             &["-10"],                 "never less than nothing"),
            (percentage("-10"),    whole,  &["-20"],            &["2"],                   "a refund is of the price after the discount"),
            (fixed("-1"),          whole,  &["30"],             &["-1"],                  "one off"),
            (fixed("-40"),         whole,  &["30", "5"],        &["-30", "-5"],           "a discount stops at a price of 0"),
            (fixed("5"),           whole,  &["30", "10"],       &["3.75", "1.25"],        "a surcharge in proportion"),
            (fixed("-10"),         half,   &["30"],             &["-5"],                  "half a period, half the discount"),
            (fixed("-10"),         whole,  &["1", "1", "1"],    &["-1", "-1", "-1"],      "as much as fits"),
            (fixed("-1"),          whole,  &["-5"],             &["0"],                   "a discount takes nothing from a refund"),
            (price_override("20"), whole,  &["30", "10"],       &["-15", "-5"],           "forty becomes twenty"),
            (price_override("20"), whole,  &["5"],              &["15"],                  "and so does five"),
            (price_override("20"), half,   &["5", "0"],         &["5", "0"],              "half a period costs ten"),
            (price_override("20"), whole,  &["0", "0"],         &["0", "20"],             "lines of nothing: the last bears it"),
        ];
        for (adjustment, fraction, lines, expected, why) in cases {
            let lines: Vec<BigDecimal> = lines.iter().map(|line| number_of(line)).collect();
            let span = Span { fraction, last: true };
            let portions = adjustment.portions(&lines, &mut AdjustmentState::default(), &span, 2);
            assert_eq!(portions.iter().map(plain).collect::<Vec<_>>(), expected, "{adjustment:?}: {why}");
        }
    }

    #[test]
    fn follows_a_period_through_its_invoices() {
        let whole = Fraction::ONE;
        let third = days(10, 30);
        #[rustfmt::skip]
        let cases: [(PriceAdjustment, &[(&str, Fraction, bool, &str)], &str); 5] = [
            // adjustment,         line, period, last, adjustment of each invoice,                     why
            (fixed("-20"),         &[("15", whole, false, "-15"), ("100", whole, true, "-5")],         "the rest of the discount waits"),
            (fixed("-10"),         &[("30", whole, false, "-10"), ("-20", third, true, "6.67")],       "cancelled after a third: 10 - 3.33 is due, 20 was given"),
            (price_override("20"), &[("5", whole, false, "0"), ("5", whole, true, "10")],              "the top-up comes last"),
            (price_override("20"), &[("30", whole, false, "-10"), ("40", whole, false, "-40")],        "what goes beyond is taken off at once"),
            (price_override("20"), &[("30", whole, false, "-10"), ("-20", third, true, "6.67")],       "a third of 20 in the end"),
        ];
        for (adjustment, invoices, why) in cases {
            let mut state = AdjustmentState::default();
            for (line, fraction, last, expected) in invoices {
                let span = Span { fraction: *fraction, last: *last };
                let portions = adjustment.portions(&[number_of(line)], &mut state, &span, 2);
                assert_eq!(
                    portions.iter().map(plain).collect::<Vec<_>>(),
                    [*expected],
                    "{adjustment:?} on {line}: {why}"
                );
            }
        }
    }

    #[test]
    fn what_no_line_can_bear_stays_due() {
        let adjustment = price_override("20");
        let span = Span { fraction: Fraction::ONE, last: true };
        let mut state = AdjustmentState::default();
        assert_eq!(plain(&adjustment.due(&BigDecimal::zero(), &state, &span, 2)), "20");
        assert!(adjustment.portions(&[], &mut state, &span, 2).is_empty());
        assert_eq!(state, AdjustmentState::default(), "nothing was given");
    }

    fn any_adjustment() -> impl Strategy<Value = PriceAdjustment> {
        let amount = || (-20_000..20_000_i64).prop_map(|cents| BigDecimal::new(cents.into(), 2));
        prop_oneof![
            amount().prop_map(|percent| PriceAdjustment::Percentage { percent }),
            amount().prop_map(|amount| PriceAdjustment::Fixed { amount }),
            (0..20_000_i64)
                .prop_map(|cents| PriceAdjustment::PriceOverride { amount: BigDecimal::new(cents.into(), 2) }),
        ]
    }

    proptest! {
        #![proptest_config(laws())]

        #[test]
        fn charges_and_adjustments_are_the_target(
            adjustment in any_adjustment(),
            invoices in prop::collection::vec(prop::collection::vec(-5_000..20_000_i64, 1..5), 1..5),
            used in 1..=31_i128,
        ) {
            let mut state = AdjustmentState::default();
            let last = invoices.len() - 1;
            for (index, cents) in invoices.iter().enumerate() {
                // The period may turn out shorter on its last invoice, as by a cancel.
                let last = index == last;
                let fraction = if last { days(used, 31) } else { Fraction::ONE };
                let span = Span { fraction, last };
                let lines: Vec<BigDecimal> = cents.iter().map(|cents| BigDecimal::new((*cents).into(), 2)).collect();
                let portions = adjustment.portions(&lines, &mut state, &span, 2);
                prop_assert_eq!(portions.len(), lines.len());
                let target = adjustment.target(&state.charges, &span);
                prop_assert_eq!(&state.charges + &state.given, round_half_away_from_zero(&target, 2));
                let overrides = matches!(adjustment, PriceAdjustment::PriceOverride { .. });
                prop_assert!(last || !overrides || state.given <= BigDecimal::zero(), "a top-up before the end");
            }
            let charged: i64 = invoices.iter().flatten().sum();
            prop_assert_eq!(state.charges, BigDecimal::new(charged.into(), 2));
        }

        #[test]
        fn a_line_taken_back_takes_its_percentage_back(percent in -10_000..10_000_i64, cents in 0..1_000_000_i64) {
            let adjustment = PriceAdjustment::Percentage { percent: BigDecimal::new(percent.into(), 2) };
            let line = BigDecimal::new(cents.into(), 2);
            let span = Span { fraction: Fraction::ONE, last: true };
            let mut state = AdjustmentState::default();
            let there = adjustment.portions(std::slice::from_ref(&line), &mut state, &span, 2);
            let back = adjustment.portions(&[-line], &mut state, &span, 2);
            prop_assert_eq!(&there[0] + &back[0], BigDecimal::zero());
            prop_assert_eq!(state, AdjustmentState::default());
        }
    }
}
