//! Exact amounts made into amounts of a currency: rounding, portions, spreading.
//!
//! An amount is a [`BigDecimal`] in major units (12.50 is twelve dollars and a half). It stays exact until
//! an invoice line; there it is rounded once. What is paid in several portions is rounded as a running sum,
//! so that the portions always add up to the rounded whole.
//!
//! Source: `docs/pricing.md`, "Rounding".

use bigdecimal::{BigDecimal, Signed, Zero};

use crate::decimal::{TIE_DECIMALS, divide, ten_to_the};

/// The amount at `decimals` places, a half away from zero: 0.005 becomes 0.01 and -0.005 becomes -0.01.
///
/// - **Units:** major units of a currency in and out.
/// - **Errors:** none.
/// - **Source:** `docs/pricing.md`, "Rounding".
///
/// Only the first [`TIE_DECIMALS`] decimals count, themselves rounded: the sum of a third and a sixth of a
/// yen is half a yen, though as two quotients it misses it by the last digit kept.
///
/// ```
/// use billing_domain::decimal::{divide, plain};
/// use billing_domain::money::round_half_away_from_zero;
/// use billing_domain::BigDecimal;
///
/// let part = |n: i32| divide(&BigDecimal::from(1), &BigDecimal::from(n));
/// assert_eq!(plain(&round_half_away_from_zero(&(part(3) + part(6)), 0)), "1");
/// assert_eq!(plain(&round_half_away_from_zero(&-part(2), 0)), "-1");
/// ```
pub fn round_half_away_from_zero(value: &BigDecimal, decimals: u8) -> BigDecimal {
    let decimals = i64::from(decimals);
    let tie_decimals = i64::from(TIE_DECIMALS).max(decimals);
    if value.fractional_digit_count() <= tie_decimals {
        return cut(value, decimals);
    }
    cut(&cut(value, tie_decimals), decimals)
}

/// Exactly `decimals` places, a half away from zero.
fn cut(value: &BigDecimal, decimals: i64) -> BigDecimal {
    let (digits, scale) = value.as_bigint_and_scale();
    if scale <= decimals {
        return value.with_scale(decimals);
    }
    let unit = ten_to_the((scale - decimals).unsigned_abs());
    let quotient = digits.as_ref() / &unit;
    let remainder = digits.as_ref() - &quotient * &unit;
    let half_or_more = remainder.magnitude() * 2_u8 >= *unit.magnitude();
    let rounded = if half_or_more { quotient + digits.signum() } else { quotient };
    BigDecimal::new(rounded, decimals)
}

/// The next portion of an amount that is given bit by bit: round(exact so far) - given so far.
///
/// - **Units:** major units; `exact_so_far` includes this portion, `given_so_far` does not.
/// - **Errors:** none.
/// - **Source:** `docs/pricing.md`, "Rounding".
///
/// The portions of any split therefore add up to the rounded whole. Surprising: equal portions need not look
/// equal. Ten euros in three are 3.33, 3.34, 3.33.
///
/// ```
/// use billing_domain::decimal::{divide, plain};
/// use billing_domain::money::portion;
/// use billing_domain::BigDecimal;
///
/// let mut given = BigDecimal::from(0);
/// let parts: Vec<String> = (1..=3)
///     .map(|part| {
///         let exact = divide(&BigDecimal::from(10 * part), &BigDecimal::from(3));
///         let next = portion(&exact, &given, 2);
///         given += &next;
///         plain(&next)
///     })
///     .collect();
/// assert_eq!(parts, ["3.33", "3.34", "3.33"]);
/// ```
pub fn portion(exact_so_far: &BigDecimal, given_so_far: &BigDecimal, decimals: u8) -> BigDecimal {
    round_half_away_from_zero(exact_so_far, decimals) - given_so_far
}

/// [`portion`] where a part of what was given is `forgiven`, on an invoice that was voided: nobody paid it, so it does not
/// come back.
///
/// ```
/// use billing_domain::decimal::plain;
/// use billing_domain::money::portion_above;
/// use billing_domain::BigDecimal;
///
/// let [ten, thirty] = [10, 30].map(BigDecimal::from);
/// assert_eq!(plain(&portion_above(&ten, &thirty, &BigDecimal::from(0), 2)), "-20");
/// assert_eq!(plain(&portion_above(&ten, &thirty, &thirty, 2)), "0"); // the invoice of 30 was voided
/// ```
pub fn portion_above(
    exact_so_far: &BigDecimal,
    given_so_far: &BigDecimal,
    forgiven: &BigDecimal,
    decimals: u8,
) -> BigDecimal {
    let rounded = round_half_away_from_zero(exact_so_far, decimals);
    let kept = if forgiven.is_zero() { rounded } else { rounded.max(forgiven.clone()) };
    kept - given_so_far
}

/// Spreads `total` over lines in proportion to `weights`, in their order, as portions.
///
/// - **Units:** major units; weights in any unit, only their proportion counts.
/// - **Errors:** none.
/// - **Source:** `docs/pricing.md`, "Rounding".
///
/// The parts add up to the rounded `total`, always. Weights of one sign share it in proportion. Where signs
/// are mixed each line counts by its size, so that a credit line cannot blow up its neighbours' shares.
/// Weights that are all zero leave the whole to the last line. No lines: no parts.
///
/// ```
/// use billing_domain::decimal::plain;
/// use billing_domain::money::spread;
/// use billing_domain::BigDecimal;
///
/// let weights = [1, 1, 1].map(BigDecimal::from);
/// let parts: Vec<String> = spread(&BigDecimal::from(-1), &weights, 2).iter().map(plain).collect();
/// assert_eq!(parts, ["-0.33", "-0.34", "-0.33"]);
/// ```
pub fn spread(total: &BigDecimal, weights: &[BigDecimal], decimals: u8) -> Vec<BigDecimal> {
    let sizes: Vec<BigDecimal> = weights.iter().map(BigDecimal::abs).collect();
    let whole: BigDecimal = sizes.iter().sum();
    let mut so_far = BigDecimal::zero();
    let mut given = BigDecimal::zero();
    let mut parts = Vec::with_capacity(sizes.len());
    for (index, size) in sizes.iter().enumerate() {
        so_far += size;
        let last = index + 1 == sizes.len();
        let exact = if last { total.clone() } else { divide(&(total * &so_far), &whole) };
        let next = portion(&exact, &given, decimals);
        given += &next;
        parts.push(next);
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decimal::plain;
    use crate::decimal::tests::{any_number, any_quantity, laws, number_of};

    #[test]
    fn rounds_half_away_from_zero() {
        #[rustfmt::skip]
        let cases = [
            // value,     decimals, rounded,  why
            ("0.005",     2,        "0.01",   "a half goes up"),
            ("-0.005",    2,        "-0.01",  "and below zero down: away from zero"),
            ("0.0049999", 2,        "0",      "less than half does not"),
            ("10.275",    2,        "10.28",  "not to even, and no float"),
            ("1000.5",    0,        "1001",   "a currency without minor unit"),
            ("0.9995",    3,        "1",      "a currency with three decimals, carried over"),
            ("7",         2,        "7",      "nothing to round"),
            ("1e20",      2,        "100000000000000000000", "a great amount"),
            ("0.4999999999999999999999999999999999999999", 0, "0", "40 decimals, clear of the tie"),
            ("0.49999999999999999999999999999999999999999", 0, "1", "nearer to the tie than 40 decimals can tell"),
        ];
        for (value, decimals, rounded, why) in cases {
            assert_eq!(plain(&round_half_away_from_zero(&number_of(value), decimals)), rounded, "{value}: {why}");
        }
    }

    #[test]
    fn spreads_in_order_and_loses_nothing() {
        #[rustfmt::skip]
        let cases: [(&str, &[&str], u8, &[&str], &str); 9] = [
            // total, weights,              decimals, parts,                     why
            ("10",    &["1", "1", "1"],     2,        &["3.33", "3.34", "3.33"], "the middle one carries the cent"),
            ("-10",   &["1", "1", "1"],     2,        &["-3.33", "-3.34", "-3.33"], "a discount likewise"),
            ("1",     &["1", "1", "1"],     0,        &["0", "1", "0"],          "a yen cannot be split"),
            ("0.60",  &["2", "1"],          2,        &["0.4", "0.2"],           "in proportion"),
            ("9",     &["0", "2", "1"],     2,        &["0", "6", "3"],          "a line of nothing gets nothing"),
            ("5",     &["0", "0"],          2,        &["0", "5"],               "nothing but such lines: the last takes it"),
            ("-20",   &["100", "-50"],      2,        &["-13.33", "-6.67"],      "mixed signs count by size"),
            ("5",     &[],                  2,        &[],                       "no lines, no parts"),
            ("0.005", &["1", "1"],          2,        &["0", "0.01"],            "the parts add up to the rounded total"),
        ];
        for (total, weights, decimals, parts, why) in cases {
            let weights: Vec<BigDecimal> = weights.iter().map(|weight| number_of(weight)).collect();
            let spread: Vec<String> = spread(&number_of(total), &weights, decimals).iter().map(plain).collect();
            assert_eq!(spread, parts, "{total}: {why}");
        }
    }

    proptest! {
        #![proptest_config(laws())]

        #[test]
        fn rounding_moves_by_half_a_unit_at_most_and_ties_go_away(value in any_number(), decimals in 0_u8..=4) {
            let rounded = round_half_away_from_zero(&value, decimals);
            let off = &rounded - &value;
            let twice_off: BigDecimal = off.double();
            let unit = BigDecimal::new(1.into(), i64::from(decimals));
            prop_assert!(twice_off.abs() <= unit);
            prop_assert!(twice_off.abs() < unit || rounded.abs() > value.abs(), "a tie went towards zero");
            prop_assert_eq!(rounded.fractional_digit_count(), i64::from(decimals));
            prop_assert_eq!(round_half_away_from_zero(&-&value, decimals), -rounded);
        }

        #[test]
        fn dust_of_quotients_moves_no_tie(parts in 1_i64..1_000, unit in 1_i64..1_000) {
            // unit/2 in so many equal quotients adds up to a tie, give or take the digits that were cut.
            let part = divide(&BigDecimal::from(unit), &BigDecimal::from(2 * parts));
            let sum: BigDecimal = (0..parts).map(|_| part.clone()).sum();
            let exact = BigDecimal::from(unit) / 2;
            prop_assert_eq!(round_half_away_from_zero(&sum, 0), round_half_away_from_zero(&exact, 0));
        }

        #[test]
        fn parts_of_a_split_sum_to_the_rounded_whole(
            amount in any_number(),
            cuts in prop::collection::vec(1_i64..1_000_000, 1..40),
            decimals in 0_u8..=4,
        ) {
            let whole: i64 = cuts.iter().sum();
            let (mut so_far, mut given) = (0, BigDecimal::zero());
            for cut in &cuts {
                so_far += cut;
                let exact = divide(&(&amount * BigDecimal::from(so_far)), &BigDecimal::from(whole));
                given += portion(&exact, &given, decimals);
            }
            prop_assert_eq!(given, round_half_away_from_zero(&amount, decimals));
        }

        #[test]
        fn spread_parts_sum_to_the_total_and_stay_near_their_share(
            total in any_number(),
            weights in prop::collection::vec(any_quantity(), 1..12),
            decimals in 0_u8..=4,
        ) {
            let total = round_half_away_from_zero(&total, decimals);
            let parts = spread(&total, &weights, decimals);
            prop_assert_eq!(parts.iter().sum::<BigDecimal>(), total.clone());
            let whole: BigDecimal = weights.iter().sum();
            if !whole.is_zero() {
                let unit = BigDecimal::new(1.into(), i64::from(decimals));
                for (part, weight) in parts.iter().zip(&weights) {
                    let off = part - divide(&(&total * weight), &whole);
                    prop_assert!(off.abs() <= &unit + BigDecimal::new(1.into(), 40), "{} for {}", part, weight);
                }
            }
        }
    }
}
