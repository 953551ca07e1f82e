//! Tax: which rate applies, and what it comes to on each line.
//!
//! The rate comes from a chain of [`TaxProvider`]s, asked in order until one answers. The built-in one is
//! [`FlatRate`]: the customer's own rate, else the organization's.
//!
//! Source: `docs/pricing.md`, "Tax".

use bigdecimal::{BigDecimal, Signed};
use serde::{Deserialize, Serialize};

use crate::decimal;
use crate::money;

/// What a provider may look at to find a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaxQuestion<'q> {
    /// The customer's rate in percent; 0 is a rate too and means exempt.
    pub customer_rate: Option<&'q BigDecimal>,
    /// The organization's rate in percent.
    pub organization_rate: Option<&'q BigDecimal>,
    /// Where the customer is: a country of ISO 3166-1, two letters.
    pub country_code: Option<&'q str>,
    /// What the invoice is in.
    pub currency_code: &'q str,
}

/// One way to find a tax rate.
pub trait TaxProvider {
    /// Its name, as traces and settings show it.
    fn name(&self) -> &str;

    /// The rate in percent (10.5 means 10.5 %); none when it has no answer and the next provider is asked.
    fn rate(&self, question: &TaxQuestion<'_>) -> Option<BigDecimal>;
}

/// The built-in provider: the customer's rate over the organization's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlatRate;

impl TaxProvider for FlatRate {
    fn name(&self) -> &str {
        "flat_rate"
    }

    fn rate(&self, question: &TaxQuestion<'_>) -> Option<BigDecimal> {
        question.customer_rate.or(question.organization_rate).cloned()
    }
}

/// The rate of the first provider that has an answer; none when nobody has, and then there is no tax.
///
/// ```
/// use billing_domain::tax::{FlatRate, TaxProvider, TaxQuestion, rate};
/// use billing_domain::{decimal::plain, BigDecimal};
///
/// let (ten, zero) = (BigDecimal::from(10), BigDecimal::from(0));
/// let chain: [&dyn TaxProvider; 1] = [&FlatRate];
/// let question = TaxQuestion { organization_rate: Some(&ten), ..TaxQuestion::default() };
/// assert_eq!(plain(&rate(&chain, &question).unwrap()), "10");
/// // Surprising: a customer's rate of 0 is an answer, not a missing one.
/// let exempt = TaxQuestion { customer_rate: Some(&zero), ..question };
/// assert_eq!(plain(&rate(&chain, &exempt).unwrap()), "0");
/// assert_eq!(rate(&chain, &TaxQuestion::default()), None);
/// ```
pub fn rate(providers: &[&dyn TaxProvider], question: &TaxQuestion<'_>) -> Option<BigDecimal> {
    providers.iter().find_map(|provider| provider.rate(question))
}

/// The tax given so far on one subscription's lines: the memory of cumulative rounding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaxState {
    /// The tax of all lines, unrounded.
    #[serde(with = "decimal::number")]
    pub exact: BigDecimal,
    /// What lines were given of it, in whole minor units.
    #[serde(with = "decimal::number")]
    pub given: BigDecimal,
    /// What of that was on voided invoices: nobody pays it, so it does not come back.
    #[serde(with = "decimal::number")]
    pub forgiven: BigDecimal,
    /// What was taxed and may come back, after price adjustments.
    pub taxed: TaxedAmounts,
}

/// Amounts that were billed and may come back, by the tax they were billed with, in order of billing: what comes back has
/// the tax of what it takes back, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaxedAmounts(Vec<TaxedAmount>);

/// An amount, and its tax.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaxedAmount {
    /// The sales tax in percent; 0 when there was none.
    #[serde(with = "decimal::number")]
    pub rate: BigDecimal,
    /// The amount before tax, in whole minor units.
    #[serde(with = "decimal::number")]
    pub amount: BigDecimal,
}

impl TaxedAmounts {
    /// Notes an amount that was billed at `rate`.
    pub fn add(&mut self, rate: &BigDecimal, amount: &BigDecimal) {
        match self.0.last_mut() {
            Some(last) if last.rate == *rate => last.amount += amount,
            _ => self.0.push(TaxedAmount { rate: rate.clone(), amount: amount.clone() }),
        }
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
        self.0.retain(|part| part.amount.is_positive());
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
    use bigdecimal::Zero;
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

    struct ByCountry;

    impl TaxProvider for ByCountry {
        fn name(&self) -> &str {
            "by_country"
        }

        fn rate(&self, question: &TaxQuestion<'_>) -> Option<BigDecimal> {
            (question.country_code == Some("DE")).then(|| BigDecimal::from(19))
        }
    }

    #[test]
    fn the_first_provider_with_an_answer_wins() {
        let (zero, ten, twenty) = (BigDecimal::zero(), BigDecimal::from(10), BigDecimal::from(20));
        let flat: &[&dyn TaxProvider] = &[&FlatRate];
        let country_first: &[&dyn TaxProvider] = &[&ByCountry, &FlatRate];
        #[rustfmt::skip]
        let cases = [
            // chain,        customer,      organization,  country,     rate,       why
            (flat,           None,          Some(&ten),    None,        Some("10"), "the organization's"),
            (flat,           Some(&twenty), Some(&ten),    None,        Some("20"), "the customer's over it"),
            (flat,           Some(&zero),   Some(&ten),    None,        Some("0"),  "a customer's 0 too"),
            (flat,           None,          None,          Some("DE"),  None,       "nobody knows"),
            (country_first,  Some(&twenty), Some(&ten),    Some("DE"),  Some("19"), "an earlier provider answers first"),
            (country_first,  Some(&twenty), Some(&ten),    Some("FR"),  Some("20"), "and passes on what it does not know"),
        ];
        for (chain, customer_rate, organization_rate, country_code, expected, why) in cases {
            let question = TaxQuestion { customer_rate, organization_rate, country_code, currency_code: "EUR" };
            assert_eq!(rate(chain, &question).as_ref().map(plain).as_deref(), expected, "{why}");
        }
        assert_eq!((FlatRate.name(), ByCountry.name()), ("flat_rate", "by_country"));
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
