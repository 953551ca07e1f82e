//! The text of a number, measured before it becomes one.

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, Zero};

/// A number's text taken apart: `0.digits x 10^point`, where `digits` does not start with `0`.
pub(super) struct Scanned {
    negative: bool,
    digits: String,
    point: i64,
    pub(super) exponent: i64,
}

impl Scanned {
    /// Linear in the text, and no arithmetic on the number itself.
    pub(super) fn new(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, scan_exponent(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits_only = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !digits_only(whole) || !digits_only(fraction) {
            return None;
        }
        let significant = whole.trim_start_matches('0');
        let digits = match significant {
            "" => fraction.trim_start_matches('0').to_owned(),
            _ => [significant, fraction].concat(),
        };
        let leading = whole.len() + fraction.len() - digits.len();
        let point = exponent.saturating_add(whole.len() as i64).saturating_sub(leading as i64);
        Some(Self { negative, digits, point, exponent })
    }

    pub(super) fn integer_digits(&self) -> i64 {
        if self.digits.is_empty() { 0 } else { self.point.max(0) }
    }

    pub(super) fn decimals(&self) -> i64 {
        let significant = self.digits.trim_end_matches('0').len() as i64;
        if significant == 0 { 0 } else { significant.saturating_sub(self.point).max(0) }
    }

    pub(super) fn without_trailing_zeros(mut self) -> Self {
        self.digits.truncate(self.digits.trim_end_matches('0').len());
        self
    }

    /// Call it only once the bounds have been checked.
    pub(super) fn value(&self) -> BigDecimal {
        if self.digits.is_empty() {
            return BigDecimal::zero();
        }
        let magnitude = match self.digits.parse::<u64>() {
            Ok(small) => small.into(),
            Err(_) => BigInt::parse_bytes(self.digits.as_bytes(), 10).unwrap_or_default(),
        };
        let digits = if self.negative { -magnitude } else { magnitude };
        BigDecimal::new(digits, self.digits.len() as i64 - self.point)
    }
}

/// The exponent's value; beyond what an `i64` holds it stays at the end of that range, far outside every bound.
fn scan_exponent(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = digits.parse::<i64>().unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
    Some(if negative { -value } else { value })
}
