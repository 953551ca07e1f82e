//! Exact decimals: bounds on the text before any arithmetic, plain notation out, one rule for quotients.
//!
//! No float is on any path. `1e999999999` is eleven characters to send and a gigabyte to add, so every
//! number from outside is measured as text first and only then becomes a [`BigDecimal`].
//!
//! Sums, differences and products are exact. A quotient need not end, so [`divide`] is the one place that
//! decides its digits: [`QUOTIENT_DECIMALS`] of them. Rounding to a currency then looks at
//! [`TIE_DECIMALS`], so what a quotient lost cannot move an amount off a tie: see
//! [`crate::money::round_half_away_from_zero`].
//!
//! Source: `docs/pricing.md`, "Decimals".

pub mod integer;
pub mod number;
pub mod optional_number;
mod scanned;

use bigdecimal::num_bigint::{BigInt, Sign};
use bigdecimal::{BigDecimal, One, Zero};
use scanned::Scanned;

/// Most digits before the decimal point of a number in a request body.
pub const INTEGER_DIGITS_MAX: usize = 20;
/// Most digits after the decimal point of a number in a request body.
pub const SCALE_MAX: usize = 15;
/// Longest number in an event property, in characters.
pub const PROPERTY_CHARACTERS_MAX: usize = 60;
/// Greatest exponent of a number in an event property, either sign.
pub const PROPERTY_EXPONENT_MAX: i64 = 30;
/// Longest number read back from what this crate wrote, in characters.
///
/// A sum of products of bounded inputs stays far below it.
pub const STORED_CHARACTERS_MAX: usize = 1_000;
/// Decimals kept of a quotient that does not end.
pub const QUOTIENT_DECIMALS: u32 = 60;
/// Decimals that count when an amount is rounded to a currency; what lies beyond is the dust of quotients.
pub const TIE_DECIMALS: u32 = 40;

/// Quotients that end within this many decimals are found without computing [`QUOTIENT_DECIMALS`].
const SHORT_DECIMALS: u32 = 12;

/// Why a text is not a number this crate takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// Not digits with an optional sign, point and exponent.
    #[error("A valid number is required.")]
    NotANumber,
    /// More than [`INTEGER_DIGITS_MAX`] digits before the point.
    #[error("Ensure that there are no more than {INTEGER_DIGITS_MAX} digits before the decimal point.")]
    TooManyIntegerDigits,
    /// More than [`SCALE_MAX`] digits after the point. Sums of floats have more: 0.1 + 0.2 prints 17 of them.
    #[error("Ensure that there are no more than {SCALE_MAX} decimal places; this number has {given}.")]
    TooManyDecimals {
        /// How many there are, without zeros at the end.
        given: i64,
    },
}

/// Reads a number of a request body; an exponent is allowed.
///
/// The bounds hold for the value, not its spelling: zeros that add nothing are not counted.
///
/// ```
/// use billing_domain::decimal::{DecimalError, parse, plain};
///
/// assert_eq!(plain(&parse("1.50e3").unwrap()), "1500");
/// assert_eq!(parse("1e999999999"), Err(DecimalError::TooManyIntegerDigits));
/// assert_eq!(parse("1e-16"), Err(DecimalError::TooManyDecimals { given: 16 }));
/// // Surprising: twenty zeros behind the point are no decimals at all.
/// assert_eq!(plain(&parse("2.00000000000000000000").unwrap()), "2");
/// ```
///
/// # Errors
/// [`DecimalError`], found on the text before any arithmetic.
pub fn parse(text: &str) -> Result<BigDecimal, DecimalError> {
    let scanned = Scanned::new(text).ok_or(DecimalError::NotANumber)?;
    if scanned.integer_digits() > INTEGER_DIGITS_MAX as i64 {
        return Err(DecimalError::TooManyIntegerDigits);
    }
    let decimals = scanned.decimals();
    if decimals > SCALE_MAX as i64 {
        return Err(DecimalError::TooManyDecimals { given: decimals });
    }
    // The bound on decimals is on the value: zeros behind it could be a million.
    Ok(scanned.without_trailing_zeros().value())
}

/// Reads a number in an event property: at most [`PROPERTY_CHARACTERS_MAX`] characters, with an exponent
/// within [`PROPERTY_EXPONENT_MAX`] either way. It is kept exactly; anything else is `None`, and the event
/// then has no usable number there. Decimals stay as they were sent: `1.50` keeps its zero.
///
/// ```
/// use billing_domain::decimal::{parse_property, plain};
///
/// assert_eq!(plain(&parse_property("1e-30").unwrap()).len(), 32);
/// assert_eq!(parse_property("1e31"), None);
/// assert_eq!(parse_property(" 1"), None);
/// ```
pub fn parse_property(text: &str) -> Option<BigDecimal> {
    bounded(text, PROPERTY_CHARACTERS_MAX, PROPERTY_EXPONENT_MAX)
}

fn bounded(text: &str, characters_max: usize, exponent_max: i64) -> Option<BigDecimal> {
    if text.len() > characters_max {
        return None;
    }
    if let Some(small) = scanned::small(text) {
        return Some(small);
    }
    let scanned = Scanned::new(text)?;
    (scanned.exponent.abs() <= exponent_max).then(|| scanned.value())
}

/// The number in plain notation: no exponent, no trailing zeros, no `-0`.
///
/// ```
/// use billing_domain::decimal::plain;
/// use billing_domain::BigDecimal;
///
/// assert_eq!(plain(&BigDecimal::new(1.into(), 7)), "0.0000001"); // never 1E-7
/// assert_eq!(plain(&BigDecimal::new(1200.into(), 2)), "12");
/// assert_eq!(plain(&BigDecimal::new(12.into(), -2)), "1200");
/// ```
pub fn plain(value: &BigDecimal) -> String {
    let (digits, scale) = value.as_bigint_and_scale();
    let negative = digits.sign() == Sign::Minus;
    // Nearly all are small, and written at a fraction of the cost.
    let mut text = match u64::try_from(digits.magnitude()) {
        Ok(small) => small.to_string(),
        Err(_) => digits.magnitude().to_string(),
    };
    if scale <= 0 {
        if text != "0" {
            text.extend(std::iter::repeat_n('0', scale.unsigned_abs() as usize));
        }
    } else {
        let decimals = scale as usize;
        if text.len() <= decimals {
            text.insert_str(0, &"0".repeat(decimals + 1 - text.len()));
        }
        text.insert(text.len() - decimals, '.');
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if negative {
        text.insert(0, '-');
    }
    text
}

/// `dividend / divisor`: exact when it ends within [`QUOTIENT_DECIMALS`], else cut there, half away from zero.
///
/// Multiply first and divide once: `price x 1 / 3` three times is the price, `1 / 3 x price` is not quite.
/// Dividing by zero answers zero, as every caller's zero divisor means "no time" or "no units".
///
/// ```
/// use billing_domain::decimal::{divide, plain};
/// use billing_domain::BigDecimal;
///
/// let (one, three) = (BigDecimal::from(1), BigDecimal::from(3));
/// assert_eq!(plain(&divide(&one, &three)).len(), 62); // "0." and sixty threes
/// assert_eq!(plain(&divide(&one, &BigDecimal::from(8))), "0.125");
/// ```
pub fn divide(dividend: &BigDecimal, divisor: &BigDecimal) -> BigDecimal {
    if dividend.is_zero() || divisor.is_zero() {
        return BigDecimal::zero();
    }
    if divisor.is_one() {
        return dividend.clone();
    }
    for decimals in [SHORT_DECIMALS, QUOTIENT_DECIMALS] {
        let (quotient, remainder, _) = divide_scaled(dividend, divisor, decimals);
        if remainder.is_zero() {
            return BigDecimal::new(quotient, i64::from(decimals)).normalized();
        }
    }
    let (quotient, remainder, scaled_divisor) = divide_scaled(dividend, divisor, QUOTIENT_DECIMALS);
    let away = BigInt::from(if dividend.sign() == divisor.sign() { 1 } else { -1 });
    let half_or_more = remainder.magnitude() * 2_u8 >= *scaled_divisor.magnitude();
    let digits = if half_or_more { quotient + away } else { quotient };
    BigDecimal::new(digits, i64::from(QUOTIENT_DECIMALS))
}

/// How [`divide_whole`] makes a whole number of a quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// The next whole number at or above.
    Up,
    /// The next whole number at or below.
    Down,
    /// The nearest whole number, a half away from zero.
    Nearest,
}

/// `dividend / divisor` as a whole number, decided on the exact quotient. A zero divisor answers zero.
pub fn divide_whole(dividend: &BigDecimal, divisor: &BigDecimal, whole: Whole) -> BigDecimal {
    if divisor.is_zero() {
        return BigDecimal::zero();
    }
    let (quotient, remainder, scaled_divisor) = divide_scaled(dividend, divisor, 0);
    let positive = remainder.is_zero() || dividend.sign() == divisor.sign();
    let step = match whole {
        _ if remainder.is_zero() => 0,
        Whole::Up => i32::from(positive),
        Whole::Down => -i32::from(!positive),
        Whole::Nearest if remainder.magnitude() * 2_u8 < *scaled_divisor.magnitude() => 0,
        Whole::Nearest if positive => 1,
        Whole::Nearest => -1,
    };
    BigDecimal::new(quotient + step, 0)
}

/// `dividend x 10^decimals / divisor` in whole numbers, towards zero: quotient, remainder, and the divisor
/// on the remainder's scale.
fn divide_scaled(dividend: &BigDecimal, divisor: &BigDecimal, decimals: u32) -> (BigInt, BigInt, BigInt) {
    let (dividend_digits, dividend_scale) = dividend.as_bigint_and_scale();
    let (divisor_digits, divisor_scale) = divisor.as_bigint_and_scale();
    let shift = divisor_scale - dividend_scale + i64::from(decimals);
    let (mut top, mut bottom) = (dividend_digits.into_owned(), divisor_digits.into_owned());
    if shift >= 0 {
        top *= ten_to_the(shift.unsigned_abs());
    } else {
        bottom *= ten_to_the(shift.unsigned_abs());
    }
    let quotient = &top / &bottom;
    let remainder = top - &quotient * &bottom;
    (quotient, remainder, bottom)
}

/// `10^exponent`. Every scale in here comes from text that was measured first, so it is small.
pub(crate) fn ten_to_the(exponent: u64) -> BigInt {
    match u32::try_from(exponent) {
        Ok(exponent) if exponent <= 18 => BigInt::from(10_u64.pow(exponent)),
        Ok(exponent) => BigInt::from(10_u8).pow(exponent),
        Err(_) => BigInt::one(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
