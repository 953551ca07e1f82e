//! Tax: which rate applies, and what it comes to on each line.
//!
//! The rate comes from a chain of [`TaxProvider`]s, asked in order until one knows it: [`TaxSources::rate`].
//!
//! Source: `docs/pricing.md`, "Tax".

mod provider;

use bigdecimal::{BigDecimal, Signed, Zero};
pub use provider::{
    QUOTES_MAX, TaxFailure, TaxHook, TaxOutcome, TaxProvider, TaxQuote, TaxRate, TaxSources, flat_rate,
};
use serde::{Deserialize, Serialize};

use crate::decimal;
use crate::money;

/// The tax given so far on one subscription's lines: the memory of cumulative rounding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaxState {
    /// The tax of all lines, unrounded.
    #[serde(with = "decimal::number")]
    pub exact: BigDecimal,
    /// What lines were given of it, in whole minor units.
    #[serde(with = "decimal::number")]
    pub given: BigDecimal,
    /// What of that was on voided invoices or credit notes took back: nobody pays it, so it does not come back.
    #[serde(with = "decimal::number")]
    pub forgiven: BigDecimal,
    /// What was taxed and may come back, after price adjustments.
    pub taxed: TaxedAmounts,
}

/// Amounts that were billed and may come back, by the tax they were billed with, in order of billing: what comes back has
/// the tax of what it takes back, the latest first.
///
/// While an invoice is issued anew, what later ones gave back of it is an amount below 0: it is [owed](Self::owed_rate).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaxedAmounts(Vec<TaxedAmount>);

/// An amount, and its tax.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaxedAmount {
    /// The sales tax in percent; 0 when there was none.
    #[serde(with = "decimal::number")]
    pub rate: BigDecimal,
    /// The amount before tax, in whole minor units.
    #[serde(with = "decimal::number")]
    pub amount: BigDecimal,
}

impl TaxedAmounts {
    /// Notes an amount that was billed at `rate`: first where something is owed at it.
    pub fn add(&mut self, rate: &BigDecimal, amount: &BigDecimal) {
        let mut left = amount.clone();
        for owed in self.0.iter_mut().filter(|part| part.rate == *rate && part.amount.is_negative()) {
            let settled = left.clone().min(-&owed.amount);
            owed.amount += &settled;
            left -= settled;
        }
        self.0.retain(|part| !part.amount.is_zero());
        match self.0.last_mut() {
            _ if !left.is_positive() => {}
            Some(last) if last.rate == *rate => last.amount += left,
            _ => self.0.push(TaxedAmount { rate: rate.clone(), amount: left }),
        }
    }

    /// Undoes a billing of `amount` at `rate`, as if it had never been. What came back of it since is then owed.
    ///
    /// ```
    /// use billing_domain::tax::TaxedAmounts;
    /// use billing_domain::BigDecimal;
    ///
    /// let [ten, twenty, thirty] = [10, 20, 30].map(BigDecimal::from);
    /// let mut billed = TaxedAmounts::default();
    /// billed.add(&twenty, &thirty);
    /// billed.take_back(&ten, &twenty);
    /// billed.undo(&twenty, &thirty);
    /// assert_eq!(billed.owed_rate(), Some(&twenty)); // of the ten
    /// billed.add(&twenty, &thirty);
    /// assert_eq!(billed.owed_rate(), None);
    /// ```
    pub fn undo(&mut self, rate: &BigDecimal, amount: &BigDecimal) {
        let (_, left) = self.take(amount, |billed_at| billed_at == rate);
        if left.is_positive() {
            self.0.push(TaxedAmount { rate: rate.clone(), amount: -left });
        }
    }

    /// In percent: what came back of what was [undone](Self::undo) did so at this rate, and what is billed in its place has it too,
    /// so that the two come to nothing.
    pub fn owed_rate(&self) -> Option<&BigDecimal> {
        self.0.iter().rev().find(|part| part.amount.is_negative()).map(|part| &part.rate)
    }

    /// Takes `amount` back from what was billed last, and says at which rates. What is not remembered has the rate of the
    /// earliest that is, or `otherwise`.
    ///
    /// ```
    /// use billing_domain::tax::TaxedAmounts;
    /// use billing_domain::BigDecimal;
    ///
    /// let [seven, ten, twenty] = [7, 10, 20].map(BigDecimal::from);
    /// let mut billed = TaxedAmounts::default();
    /// billed.add(&twenty, &ten);
    /// billed.add(&seven, &ten);
    /// let back = billed.take_back(&BigDecimal::from(12), &twenty);
    /// assert_eq!((&back[0].rate, &back[0].amount), (&seven, &ten)); // all of the latest ...
    /// assert_eq!((&back[1].rate, &back[1].amount), (&twenty, &BigDecimal::from(2))); // ... and then of what was before it
    /// ```
    pub fn take_back(&mut self, amount: &BigDecimal, otherwise: &BigDecimal) -> Vec<TaxedAmount> {
        let (mut taken, left) = self.take(amount, |_| true);
        if left.is_positive() {
            match taken.last_mut() {
                Some(earliest) => earliest.amount += left,
                None => taken.push(TaxedAmount { rate: otherwise.clone(), amount: left }),
            }
        }
        taken
    }

    /// Takes `amount` back from what was billed at `rate`, and where that is less, from what was billed last.
    pub fn take_back_at(&mut self, rate: &BigDecimal, amount: &BigDecimal) -> Vec<TaxedAmount> {
        let (mut taken, left) = self.take(amount, |billed_at| billed_at == rate);
        if left.is_positive() {
            taken.extend(self.take_back(&left, rate));
        }
        taken
    }

    /// Undoes a taking back at `rate`.
    pub fn restore(&mut self, rate: &BigDecimal, amount: &BigDecimal) {
        match self.0.iter_mut().rev().find(|part| part.rate == *rate && part.amount.is_positive()) {
            Some(part) => part.amount += amount,
            None => self.add(rate, amount),
        }
    }

    /// Takes `amount` out of those parts whose rate `suits`, the latest first; and says what there was not.
    fn take(&mut self, amount: &BigDecimal, suits: impl Fn(&BigDecimal) -> bool) -> (Vec<TaxedAmount>, BigDecimal) {
        let mut left = amount.clone();
        let mut taken: Vec<TaxedAmount> = Vec::new();
        for part in self.0.iter_mut().rev().filter(|part| suits(&part.rate)) {
            let amount = part.amount.clone().min(left.clone());
            if amount.is_positive() {
                part.amount -= &amount;
                left -= &amount;
                taken.push(TaxedAmount { rate: part.rate.clone(), amount });
            }
        }
        self.0.retain(|part| !part.amount.is_zero());
        (taken, left)
    }
}

impl TaxState {
    /// The tax of the next line: `rate` percent of `taxable`, rounded together with all before it.
    ///
    /// - **Units:** `taxable` is base plus adjustment in major units, `rate` in percent; the answer is in whole
    ///   minor units.
    /// - **Errors:** none.
    /// - **Source:** `docs/pricing.md`, "Tax".
    ///
    /// A line that takes an earlier one back is negative and comes with that line's rate. The running sum is then
    /// where it would be without the two, and so is the tax given in all.
    pub fn portion(&mut self, taxable: &BigDecimal, rate: &BigDecimal, decimals: u8) -> BigDecimal {
        self.exact += taxable * rate * BigDecimal::new(1.into(), 2);
        let portion = money::portion_above(&self.exact, &self.given, &self.forgiven, decimals);
        self.given += &portion;
        portion
    }
}

/// The tax of each line, in their order, at one rate: [`TaxState::portion`] line by line.
///
/// ```
/// use billing_domain::tax::{TaxState, portions};
/// use billing_domain::{decimal::plain, BigDecimal};
///
/// let cents = |n: i32| BigDecimal::new(n.into(), 2);
/// // Ten percent of three lines of 0.05: the running sums 0.005, 0.01, 0.015 round to 0.01, 0.01, 0.02.
/// let taxes = portions(&[cents(5), cents(5), cents(5)], &BigDecimal::from(10), &mut TaxState::default(), 2);
/// assert_eq!(taxes.iter().map(plain).collect::<Vec<_>>(), ["0.01", "0", "0.01"]);
/// ```
pub fn portions(taxable: &[BigDecimal], rate: &BigDecimal, state: &mut TaxState, decimals: u8) -> Vec<BigDecimal> {
    taxable.iter().map(|line| state.portion(line, rate, decimals)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decimal::plain;
    use crate::decimal::tests::{laws, number_of};

    #[test]
    fn taxes_lines_by_their_running_sum() {
        #[rustfmt::skip]
        let cases: [(&str, &[&str], u8, &[&str], &str); 7] = [
            // rate, taxable,                    decimals, taxes,                   why
            ("10",   &["100"],                   2,        &["10"],                 "ten percent"),
            ("8.875", &["19.99"],                2,        &["1.77"],               "1.7741125, rounded once"),
            ("7",    &["0.99", "0.99", "0.99"],  2,        &["0.07", "0.07", "0.07"], "0.0693 each, 0.2079 in all: 0.21"),
            ("10",   &["0.04", "0.04"],          2,        &["0", "0.01"],          "0.004 is nothing, 0.008 is a cent"),
            ("20",   &["100", "-40"],            2,        &["20", "-8"],           "a line taken back"),
            ("10",   &["55"],                    0,        &["6"],                  "5.5 yen are 6"),
            ("0",    &["100"],                   2,        &["0"],                  "exempt"),
        ];
        for (rate, taxable, decimals, taxes, why) in cases {
            let taxable: Vec<BigDecimal> = taxable.iter().map(|line| number_of(line)).collect();
            let found = portions(&taxable, &number_of(rate), &mut TaxState::default(), decimals);
            assert_eq!(found.iter().map(plain).collect::<Vec<_>>(), taxes, "{rate} %: {why}");
        }
    }

    #[test]
    fn what_comes_back_has_the_tax_it_was_billed_with() {
        #[rustfmt::skip]
        let cases: [(&[(&str, &str)], &str, &[&str], &str); 5] = [
            // billed at rate,               back,  taken,                why
            (&[("10", "20")],                "4",   &["4@20"],            "there is but one rate"),
            (&[("10", "20"), ("5", "7")],    "4",   &["4@7"],             "the latest first"),
            (&[("10", "20"), ("5", "7")],    "12",  &["5@7", "7@20"],     "then what was before it"),
            (&[("10", "20"), ("5", "20")],   "15",  &["15@20"],           "one rate is one part"),
            (&[],                            "3",   &["3@9"],             "nothing is remembered: the rate that is given"),
        ];
        for (billed, back, expected, why) in cases {
            let mut amounts = TaxedAmounts::default();
            for (amount, rate) in billed {
                amounts.add(&number_of(rate), &number_of(amount));
            }
            let taken = amounts.take_back(&number_of(back), &number_of("9"));
            let taken: Vec<_> =
                taken.iter().map(|part| format!("{}@{}", plain(&part.amount), plain(&part.rate))).collect();
            assert_eq!(taken, expected, "{why}");
        }
    }

    proptest! {
        #![proptest_config(laws())]

        #[test]
        fn taxes_sum_to_the_rounded_tax_of_the_sum(
            cents in prop::collection::vec(-100_000..100_000_i64, 0..20),
            rate in 0..4_000_i64,
            cut in 0..20_usize,
        ) {
            let lines: Vec<BigDecimal> = cents.iter().map(|cents| BigDecimal::new((*cents).into(), 2)).collect();
            let rate = BigDecimal::new(rate.into(), 2);
            // Over two invoices as well as over one.
            let (first, second) = lines.split_at(cut.min(lines.len()));
            let mut state = TaxState::default();
            let mut taxes = portions(first, &rate, &mut state, 2);
            taxes.extend(portions(second, &rate, &mut state, 2));
            let exact = lines.iter().sum::<BigDecimal>() * &rate / BigDecimal::from(100);
            let expected = money::round_half_away_from_zero(&exact, 2);
            prop_assert_eq!(taxes.iter().sum::<BigDecimal>(), expected.clone());
            prop_assert_eq!((state.exact, state.given), (exact, expected));
        }
    }
}
