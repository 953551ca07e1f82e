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

/// Up to this length a number without an exponent fits into an `i64`.
const SMALL: usize = 18;

/// What [`Scanned::value`] says of the numbers that nearly all are, at a fraction of the cost; `None`: look closer.
pub(super) fn small(text: &str) -> Option<BigDecimal> {
    let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |unsigned| (true, unsigned));
    if unsigned.is_empty() || unsigned.len() > SMALL {
        return None;
    }
    let (mut magnitude, mut decimals) = (0_i64, None);
    for byte in unsigned.bytes() {
        match byte {
            b'0'..=b'9' => {
                magnitude = magnitude * 10 + i64::from(byte - b'0');
                decimals = decimals.map(|count: i64| count + 1);
            }
            b'.' if decimals.is_none() && unsigned.len() > 1 => decimals = Some(0),
            _ => return None,
        }
    }
    if magnitude == 0 {
        return Some(BigDecimal::zero());
    }
    let digits = if negative { -magnitude } else { magnitude };
    Some(BigDecimal::new(digits.into(), decimals.unwrap_or_default()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_number_is_what_a_closer_look_says() {
        #[rustfmt::skip]
        let cases = [
            // text,                  is small, why
            ("0",                     true,  "zero"),
            ("-0.00",                 true,  "zero has no sign and no decimals"),
            ("7",                     true,  "a digit"),
            ("-1.50",                 true,  "decimals are kept"),
            ("007",                   true,  "zeros in front"),
            (".5",                    true,  "nothing before the point"),
            ("5.",                    true,  "nothing behind it"),
            ("123456789012345678",    true,  "the longest"),
            ("-.12345678901234567",   true,  "the longest fraction"),
            ("1234567890123456789",   false, "longer"),
            ("1e3",                   false, "an exponent"),
            ("+1",                    false, "a plus"),
        ];
        for (text, is_small, why) in cases {
            let closer = Scanned::new(text).expect("a number").value();
            let found = small(text);
            assert_eq!(found.is_some(), is_small, "{text}: {why}");
            let found = found.map(|number| (number.as_bigint_and_exponent(), number));
            assert!(found.is_none_or(|found| found == (closer.as_bigint_and_exponent(), closer)), "{text}: {why}");
        }
        for no_number in ["", "-", ".", "-.", "1.2.3", "--1", "1-", "a", "1 ", "\u{665}"] {
            assert_eq!((small(no_number), Scanned::new(no_number).is_none()), (None, true), "{no_number}");
        }
    }
}
