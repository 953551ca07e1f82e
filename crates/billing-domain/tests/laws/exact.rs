//! Fractions of whole numbers: arithmetic that shares nothing with the engine's.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};

use bigdecimal::num_bigint::{BigInt, Sign};
use serde_json::Value;

/// `top / bottom`, the bottom above 0; never reduced.
#[derive(Clone, Debug)]
pub struct Ratio {
    top: BigInt,
    bottom: BigInt,
}

impl Ratio {
    pub fn whole(number: impl Into<BigInt>) -> Self {
        Self { top: number.into(), bottom: 1.into() }
    }

    /// Reads plain decimal notation; null is 0.
    pub fn read(json: &Value) -> Self {
        let text = match json {
            Value::Null => "0".to_owned(),
            Value::Number(number) => number.to_string(),
            other => panic!("{other} is not a number"),
        };
        let (digits, decimals) = match text.split_once('.') {
            Some((whole, part)) => (format!("{whole}{part}"), part.len()),
            None => (text.clone(), 0),
        };
        let top = digits.parse().unwrap_or_else(|_| panic!("{text} is not in plain notation"));
        Self { top, bottom: power_of_ten(decimals) }
    }

    pub fn floor(&self) -> Self {
        let quotient = &self.top / &self.bottom;
        let rest = &self.top - &quotient * &self.bottom;
        Self::whole(if rest.sign() == Sign::Minus { quotient - 1 } else { quotient })
    }

    pub fn ceiling(&self) -> Self {
        let minus = |ratio: &Self| Self { top: -&ratio.top, bottom: ratio.bottom.clone() };
        minus(&minus(self).floor())
    }

    /// In units of the last of `decimals`, a half away from zero. Only the first 40 decimals count, themselves rounded: a
    /// trace has quotients that were cut, so a sum of them misses a tie by their last digit.
    pub fn rounded(&self, decimals: usize) -> BigInt {
        let counted = self.cut(40);
        Self { top: counted, bottom: power_of_ten(40) }.cut(decimals)
    }

    fn cut(&self, decimals: usize) -> BigInt {
        let scaled = &self.top * power_of_ten(decimals);
        let size: BigInt = (BigInt::from(scaled.magnitude().clone()) * 2 + &self.bottom) / (&self.bottom * 2);
        if scaled.sign() == Sign::Minus { -size } else { size }
    }

    pub fn at_least_zero(self) -> Self {
        if self.top.sign() == Sign::Minus { Self::whole(0) } else { self }
    }
}

fn power_of_ten(exponent: usize) -> BigInt {
    format!("1{}", "0".repeat(exponent)).parse().expect("digits")
}

impl Add for Ratio {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { top: self.top * &other.bottom + other.top * &self.bottom, bottom: self.bottom * other.bottom }
    }
}

impl Sub for Ratio {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + other * Self::whole(-1)
    }
}

impl Mul for Ratio {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self { top: self.top * other.top, bottom: self.bottom * other.bottom }
    }
}

impl Div for Ratio {
    type Output = Self;

    /// By 0 it is 0, as all that is divided here is by time or units.
    fn div(self, other: Self) -> Self {
        match other.top.sign() {
            Sign::NoSign => Self::whole(0),
            Sign::Plus => Self { top: self.top * other.bottom, bottom: self.bottom * other.top },
            Sign::Minus => Self { top: -(self.top * other.bottom), bottom: self.bottom * -other.top },
        }
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some((&self.top * &other.bottom).cmp(&(&other.top * &self.bottom)))
    }
}

#[test]
fn fractions_are_rounded_like_money() {
    #[rustfmt::skip]
    let cases = [
        // number,  decimals, rounded, floor, ceiling
        ("0.005",   2,        1,       0,     1),
        ("-0.005",  2,        -1,      -1,    0),
        ("0.0049",  2,        0,       0,     1),
        ("-1.5",    0,        -2,      -2,    -1),
        ("7",       1,        70,      7,     7),
    ];
    for (text, decimals, rounded, floor, ceiling) in cases {
        let number = Ratio::read(&serde_json::from_str(text).expect("a number"));
        assert_eq!(number.rounded(decimals), BigInt::from(rounded), "{text}");
        assert_eq!((number.floor(), number.ceiling()), (Ratio::whole(floor), Ratio::whole(ceiling)), "{text}");
    }
}
