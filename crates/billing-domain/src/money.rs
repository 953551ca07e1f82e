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
