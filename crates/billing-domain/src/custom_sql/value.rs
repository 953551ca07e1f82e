//! The values that the interpreter computes with, and the arithmetic that both machines share.

use std::sync::Arc;

use bigdecimal::num_bigint::Sign;
use bigdecimal::{BigDecimal, RoundingMode, Zero};
use time::{Date, Duration, OffsetDateTime, Time, UtcOffset};

use super::program::{Arithmetic, Conversion, DateUnit};
use crate::decimal;
use crate::period::instant;

/// Decimals of products and quotients.
pub const DECIMALS: u32 = decimal::QUOTIENT_DECIMALS;
/// A product of more digits than this before the point is invalid.
pub const DIGITS_MAX: u32 = 100;

/// One value of a row. In this order, as far as values of one type are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(Arc<str>),
    Time(OffsetDateTime),
    /// The properties of the event with this number.
    Properties(usize),
}

/// A number, or the fact that it could not be computed. As in Postgres, what is invalid equals itself and is greater
/// than everything else: that decides groups, orders, the least and the greatest. Comparisons do not see it: to them it
/// is null.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Number {
    /// A number.
    Finite(BigDecimal),
    /// The text that was to be a number was none, or something was divided by zero, or a product was too great.
    Invalid,
}

impl Number {
    fn checked(value: BigDecimal) -> Self {
        let too_great = value.with_scale(0).abs() >= BigDecimal::new(1.into(), -i64::from(DIGITS_MAX));
        if too_great { Self::Invalid } else { Self::Finite(rounded(&value, DECIMALS)) }
    }

    /// The number with the other sign.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Finite(value) => Self::Finite(-value),
            Self::Invalid => Self::Invalid,
        }
    }

    /// Two numbers put together.
    pub(super) fn combined(&self, operator: Arithmetic, other: &Self) -> Self {
        let (Self::Finite(left), Self::Finite(right)) = (self, other) else { return Self::Invalid };
        match operator {
            Arithmetic::Add => Self::Finite(left + right),
            Arithmetic::Subtract => Self::Finite(left - right),
            Arithmetic::Multiply => Self::checked(left * right),
            Arithmetic::Divide if right.is_zero() => Self::Invalid,
            Arithmetic::Divide => Self::Finite(decimal::divide(left, right)),
        }
    }
}

/// `value` with at most so many decimals, half away from zero.
pub(super) fn rounded(value: &BigDecimal, decimals: u32) -> BigDecimal {
    if value.fractional_digit_count() <= i64::from(decimals) {
        return value.clone();
    }
    value.with_scale_round(i64::from(decimals), RoundingMode::HalfUp)
}

/// A value that is not null as another type.
pub(super) fn converted(conversion: Conversion, value: &Value) -> Value {
    match (conversion, value) {
        (Conversion::TextToNumber, Value::Text(text)) => {
            Value::Number(decimal::parse_property(text).map_or(Number::Invalid, Number::Finite))
        }
        (Conversion::TextToNumberOrNull, Value::Text(text)) => {
            decimal::parse_property(text).map_or(Value::Null, |value| Value::Number(Number::Finite(value)))
        }
        (Conversion::NumberToText, Value::Number(Number::Finite(value))) => Value::Text(decimal::plain(value).into()),
        (Conversion::NumberToText, Value::Number(Number::Invalid)) => Value::Text("NaN".into()),
        (Conversion::TextToTime, Value::Text(text)) => parse_time(text).map_or(Value::Null, Value::Time),
        (Conversion::TimeToText, Value::Time(time)) => Value::Text(time_text(*time).into()),
        _ => Value::Null,
    }
}

/// The instant in a text: `YYYY-MM-DD`, or that with `T` or a space and `HH:MM`, then `:SS`, a fraction of up to six
/// digits, and `Z` or an offset `+HH`, `+HHMM` or `+HH:MM`, each of which may be missing. Without an offset: in UTC.
pub(super) fn parse_time(text: &str) -> Option<OffsetDateTime> {
    let mut rest = Digits(text);
    let (year, month, day) = (rest.take(4)?, rest.after('-')?.take(2)?, rest.after('-')?.take(2)?);
    let month = time::Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok().filter(|_| year > 0)?;
    if rest.0.is_empty() {
        return Some(date.midnight().assume_utc());
    }
    rest.0 = rest.0.strip_prefix(['T', ' '])?;
    let (hour, minute) = (rest.take(2)?, rest.after(':')?.take(2)?);
    let (mut second, mut microsecond) = (0, 0);
    if rest.0.starts_with(':') {
        second = rest.after(':')?.take(2)?;
        if rest.0.starts_with('.') {
            microsecond = rest.after('.')?.take_fraction()?;
        }
    }
    let offset = rest.take_offset()?;
    let clock = [hour, minute, second].map(|part| u8::try_from(part).unwrap_or(u8::MAX));
    let time = Time::from_hms_micro(clock[0], clock[1], clock[2], u32::try_from(microsecond).ok()?).ok()?;
    within(date.with_time(time).assume_utc().checked_sub(Duration::minutes(offset))?)
}

/// What is left of a text that is read from the front.
struct Digits<'t>(&'t str);

impl Digits<'_> {
    fn after(&mut self, mark: char) -> Option<&mut Self> {
        self.0 = self.0.strip_prefix(mark)?;
        Some(self)
    }

    fn take(&mut self, count: usize) -> Option<i32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        self.0 = rest;
        digits.parse().ok().filter(|_| is_number)
    }

    fn take_fraction(&mut self) -> Option<i32> {
        let count = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let digits = self.take(count).filter(|_| (1..=6).contains(&count))?;
        Some(digits * 10_i32.pow(6 - u32::try_from(count).ok()?))
    }

    /// Minutes east of UTC; it must end the text.
    fn take_offset(&mut self) -> Option<i64> {
        let sign = match self.0.as_bytes() {
            [] | [b'Z'] => return Some(0),
            [b'+', ..] => 1,
            [b'-', ..] => -1,
            _ => return None,
        };
        self.0 = &self.0[1..];
        let hours = self.take(2)?;
        self.0 = self.0.strip_prefix(':').filter(|rest| !rest.is_empty()).unwrap_or(self.0);
        let minutes = if self.0.is_empty() { 0 } else { self.take(2)? };
        (self.0.is_empty() && hours <= 15 && minutes <= 59).then(|| i64::from(sign * (hours * 60 + minutes)))
    }
}

/// An instant as text: see [`Conversion::TimeToText`].
fn time_text(time: OffsetDateTime) -> String {
    let time = time.to_offset(UtcOffset::UTC);
    let (date, hour, minute, second) = (time.date(), time.hour(), time.minute(), time.second());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    let fraction = match time.microsecond() {
        0 => String::new(),
        fraction => format!(".{fraction:06}").trim_end_matches('0').to_owned(),
    };
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}+00")
}

/// An instant moved, if it stays in the years 1 to 9999.
pub(super) fn shifted(time: OffsetDateTime, microseconds: i64) -> Option<OffsetDateTime> {
    within(time.checked_add(Duration::microseconds(microseconds))?)
}

fn within(time: OffsetDateTime) -> Option<OffsetDateTime> {
    (1..=9999).contains(&time.year()).then(|| instant::whole(time))
}

/// The beginning of the unit that holds `time`, in UTC.
pub(super) fn truncated(unit: DateUnit, time: OffsetDateTime) -> Option<OffsetDateTime> {
    let time = time.to_offset(UtcOffset::UTC);
    let date = time.date();
    let first_of = |month: time::Month| Date::from_calendar_date(date.year(), month, 1).ok();
    let clock = |hour, minute, second| Some(date.with_time(Time::from_hms(hour, minute, second).ok()?).assume_utc());
    let start = match unit {
        DateUnit::Second => return clock(time.hour(), time.minute(), time.second()),
        DateUnit::Minute => return clock(time.hour(), time.minute(), 0),
        DateUnit::Hour => return clock(time.hour(), 0, 0),
        DateUnit::Day => Some(date),
        DateUnit::Week => date.checked_sub(Duration::days(i64::from(date.weekday().number_days_from_monday()))),
        DateUnit::Month => first_of(date.month()),
        DateUnit::Quarter => first_of(time::Month::try_from((u8::from(date.month()) - 1) / 3 * 3 + 1).ok()?),
        DateUnit::Year => first_of(time::Month::January),
    };
    within(start?.midnight().assume_utc())
}

/// Whether `text` has the form of `pattern`: see [`Expression::Like`](super::program::Expression::Like).
pub(super) fn is_like(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let pattern = steps_of(pattern);
    // Where to go back to: behind the last `%`, one character further in the text.
    let (mut at, mut step, mut back) = (0, 0, None);
    while at < text.len() {
        match pattern.get(step) {
            Some(Step::Any) => {
                back = Some((step + 1, at));
                step += 1;
            }
            Some(Step::One) => (at, step) = (at + 1, step + 1),
            Some(Step::Exactly(wanted)) if *wanted == text[at] => (at, step) = (at + 1, step + 1),
            _ => match back {
                Some((behind, from)) => {
                    back = Some((behind, from + 1));
                    (at, step) = (from + 1, behind);
                }
                None => return false,
            },
        }
    }
    pattern[step..].iter().all(|step| *step == Step::Any)
}

#[derive(PartialEq, Eq)]
enum Step {
    Any,
    One,
    Exactly(char),
}

fn steps_of(pattern: &str) -> Vec<Step> {
    let mut characters = pattern.chars();
    let mut steps = Vec::new();
    while let Some(character) = characters.next() {
        steps.push(match character {
            '%' => Step::Any,
            '_' => Step::One,
            '\\' => Step::Exactly(characters.next().unwrap_or('\\')),
            other => Step::Exactly(other),
        });
    }
    steps
}

/// Whether a number is below zero.
pub(super) fn is_negative(value: &BigDecimal) -> bool {
    value.sign() == Sign::Minus
}
