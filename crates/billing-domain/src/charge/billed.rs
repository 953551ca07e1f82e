//! What has been billed of one charge: how much, at which tax, and what voided invoices forgave of it.

use bigdecimal::{BigDecimal, Signed, Zero};
use serde::{Deserialize, Serialize};

use crate::decimal;
use crate::invoice::Rounding;
use crate::money::portion_above;
use crate::tax::TaxedAmounts;

/// What has been billed of one charge so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Billed {
    /// Units of the metric; 0 for fees.
    #[serde(with = "decimal::number")]
    pub quantity: BigDecimal,
    /// The price of all of it, unrounded.
    #[serde(with = "decimal::number")]
    pub exact: BigDecimal,
    /// What invoice lines gave of that price.
    #[serde(with = "decimal::number")]
    pub given: BigDecimal,
    /// How much of `given` was on invoices that were voided, or was taken back by credit notes: nobody pays it, so it does not come
    /// back either.
    #[serde(with = "decimal::number")]
    pub forgiven: BigDecimal,
    /// How much of `given` may come back, before price adjustments.
    pub taxed: TaxedAmounts,
}

impl Billed {
    /// Whether nothing has been billed yet.
    pub fn is_nothing(&self) -> bool {
        self.exact.is_zero() && self.given.is_zero()
    }

    /// Bills up to `exact` in all and says what that puts on the next line. What a voided invoice forgave does not come
    /// back.
    pub(super) fn up_to(&mut self, exact: BigDecimal, decimals: u8) -> Rounding {
        let rounding = Rounding::next(exact.clone(), self.given.clone(), self.forgiven.clone(), decimals);
        self.given += &rounding.amount;
        self.exact = exact;
        rounding
    }

    /// Forgives `amount`, which a voided invoice billed at `rate`: it is not billed again, and does not come back.
    pub fn forgive(&mut self, rate: &BigDecimal, amount: &BigDecimal) {
        self.forgiven += amount;
        self.taxed.take_back_at(rate, amount);
    }

    /// Undoes [`Billed::forgive`], when a credit note is voided.
    pub fn unforgive(&mut self, rate: &BigDecimal, amount: &BigDecimal) {
        self.forgiven -= amount;
        self.taxed.restore(rate, amount);
    }

    /// What of it somebody pays, before price adjustments.
    pub fn kept(&self) -> BigDecimal {
        &self.given - &self.forgiven
    }

    /// Whether more was given than it costs and may come back: billing up to the same price would take it back.
    pub fn is_above_price(&self, decimals: u8) -> bool {
        portion_above(&self.exact, &self.given, &self.forgiven, decimals).is_negative()
    }

    /// Undoes a line of a voided invoice that took `amount` back at `rate`: it is owed again. Less than nothing is what such a
    /// line charged beside an adjustment that took more back.
    pub fn owe_again(&mut self, rate: &BigDecimal, amount: &BigDecimal) {
        self.given += amount;
        if amount.is_negative() {
            self.taxed.undo(rate, &-amount);
        } else {
            self.taxed.add(rate, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decimal::plain;
    use crate::decimal::tests::number_of;

    #[test]
    fn what_was_forgiven_does_not_come_back() {
        let mut memory = Billed::default();
        for (amount, rate) in [("10", "20"), ("5", "7")] {
            memory.up_to(&memory.exact + number_of(amount), 2);
            memory.taxed.add(&number_of(rate), &number_of(amount));
        }
        memory.forgive(&number_of("20"), &number_of("10"));
        let back = memory.taxed.clone().take_back(&number_of("1"), &number_of("0"));
        assert_eq!(back[0].rate, number_of("7"), "only what somebody pays can come back");
        assert_eq!(plain(&memory.up_to(number_of("12"), 2).amount), "-3");
        assert_eq!(plain(&memory.up_to(BigDecimal::zero(), 2).amount), "-2", "and no more than that");
        assert_eq!(plain(&memory.up_to(number_of("11"), 2).amount), "1", "what was forgiven is not billed again");
    }
}
