//! Parts of a whole interval, exact.

use bigdecimal::BigDecimal;
use serde::{Deserialize, Serialize};

use crate::decimal::{self, divide};

/// A part of an interval as two lengths in microseconds; it is never reduced, so it explains itself.
///
/// ```
/// use billing_domain::decimal::plain;
/// use billing_domain::period::Fraction;
/// use billing_domain::BigDecimal;
///
/// let third = Fraction { numerator: 1, denominator: 3 };
/// // Surprising: three thirds of ten are ten, because the product comes before the quotient.
/// let three_thirds = Fraction { numerator: 3, denominator: 3 };
/// assert_eq!(plain(&three_thirds.of(&BigDecimal::from(10))), "10");
/// assert!(plain(&third.of(&BigDecimal::from(10))).starts_with("3.3333333333"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fraction {
    /// The microseconds used.
    #[serde(with = "decimal::integer")]
    pub numerator: i128,
    /// The microseconds of the full, uncut interval.
    #[serde(with = "decimal::integer")]
    pub denominator: i128,
}

impl Fraction {
    /// The whole.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };
    /// Nothing.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// This part of `amount`: multiplied first, divided once by [`divide`]'s rule, so not rounded to a currency.
    ///
    /// A fraction over zero is no time at all and gives 0.
    pub fn of(&self, amount: &BigDecimal) -> BigDecimal {
        if self.is_one() {
            return amount.clone();
        }
        divide(&(amount * BigDecimal::from(self.numerator)), &BigDecimal::from(self.denominator))
    }

    /// Whether it is exactly the whole.
    pub fn is_one(&self) -> bool {
        self.numerator == self.denominator && self.denominator != 0
    }
}
