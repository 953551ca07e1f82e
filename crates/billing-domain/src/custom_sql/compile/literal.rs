//! Literals, the types they take on, and the types that can be named.

use sqlparser::ast::{DataType, DateTimeField, ExactNumberInfo, Expr, Interval, TimezoneInfo, Value};

use crate::custom_sql::program::{Expression, Type};
use crate::custom_sql::refusal::{CustomSqlError, Position, excerpt};
use crate::custom_sql::value::parse_time;
use crate::decimal;

/// Longest time that `INTERVAL` can name, in microseconds: 100 years.
const INTERVAL_MAX: i64 = 100 * 366 * 86_400 * 1_000_000;

/// An expression and its type. A string or NULL as it is written has none yet: it takes that of its neighbours.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub expression: Expression,
    pub of: Option<Type>,
}

impl Typed {
    pub fn new(expression: Expression, of: Type) -> Self {
        Self { expression, of: Some(of) }
    }

    /// With text as the type where there is none.
    pub fn settled(self) -> (Expression, Type) {
        (self.expression, self.of.unwrap_or(Type::Text))
    }

    /// The expression, which must be of type `wanted` or take it on.
    pub fn expect(self, wanted: Type, position: Option<Position>) -> Result<Expression, CustomSqlError> {
        match (self.of, self.expression) {
            (Some(of), expression) if of == wanted => Ok(expression),
            (None, Expression::Null(_)) => Ok(Expression::Null(wanted)),
            (None, Expression::Text(text)) => text_as(text, wanted, position),
            (of, _) => {
                let (found, wanted) = (name_of(of.unwrap_or(Type::Text)), name_of(wanted));
                let message = format!("This is {found} where {wanted} is needed; CAST makes numbers, texts and times.");
                Err(CustomSqlError::new(position, message))
            }
        }
    }
}

/// A string as it is written, as another type.
fn text_as(text: String, wanted: Type, position: Option<Position>) -> Result<Expression, CustomSqlError> {
    let read = match wanted {
        Type::Text => return Ok(Expression::Text(text)),
        Type::Number => decimal::parse_property(&text).map(Expression::Number),
        Type::Time => parse_time(&text).map(Expression::Time),
        Type::Bool | Type::Properties => None,
    };
    read.ok_or_else(|| {
        CustomSqlError::new(position, format!("'{}' cannot be read as {}.", excerpt(&text), name_of(wanted)))
    })
}

pub(super) fn name_of(of: Type) -> &'static str {
    match of {
        Type::Number => "a number",
        Type::Text => "a text",
        Type::Time => "a time",
        Type::Bool => "a condition",
        Type::Properties => "the properties as a whole",
    }
}

/// A literal.
pub(super) fn literal(value: &Value, position: Option<Position>) -> Result<Typed, CustomSqlError> {
    Ok(match value {
        Value::Number(text, false) => match decimal::parse_property(text) {
            Some(number) => Typed::new(Expression::Number(number), Type::Number),
            None => return Err(CustomSqlError::new(position, "This number is too long, or its exponent too great.")),
        },
        Value::SingleQuotedString(text) => Typed { expression: Expression::Text(text.clone()), of: None },
        Value::Boolean(flag) => Typed::new(Expression::Bool(*flag), Type::Bool),
        Value::Null => Typed { expression: Expression::Null(Type::Text), of: None },
        _ => return Err(CustomSqlError::new(position, "Literals are numbers, 'texts', TRUE, FALSE and NULL.")),
    })
}

/// A type to cast to.
pub(super) fn cast_type(of: &DataType, position: Option<Position>) -> Result<Type, CustomSqlError> {
    match of {
        DataType::Numeric(ExactNumberInfo::None)
        | DataType::Decimal(ExactNumberInfo::None)
        | DataType::Dec(ExactNumberInfo::None) => Ok(Type::Number),
        DataType::Text => Ok(Type::Text),
        DataType::Timestamp(None, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => Ok(Type::Time),
        _ => Err(CustomSqlError::new(position, "Casts are to numeric, text and timestamptz, without a length.")),
    }
}

/// The microseconds of `INTERVAL '2 days'` or `INTERVAL '2' DAY`.
pub(super) fn interval(interval: &Interval, position: Option<Position>) -> Result<i64, CustomSqlError> {
    let Interval { value, leading_field, leading_precision, last_field, fractional_seconds_precision } = interval;
    let refused = || {
        let message = "An INTERVAL is whole numbers of weeks, days, hours, minutes and seconds, at most 100 years in all: \
             INTERVAL '2 days'.";
        CustomSqlError::new(position, message)
    };
    let is_plain = leading_precision.is_none() && last_field.is_none() && fractional_seconds_precision.is_none();
    let text = match value.as_ref() {
        Expr::Value(value) if is_plain => match &value.value {
            Value::SingleQuotedString(text) => text,
            _ => return Err(refused()),
        },
        _ => return Err(refused()),
    };
    let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
    match leading_field {
        None => {}
        Some(DateTimeField::Week(None)) => words.push("week"),
        Some(DateTimeField::Day) => words.push("day"),
        Some(DateTimeField::Hour) => words.push("hour"),
        Some(DateTimeField::Minute) => words.push("minute"),
        Some(DateTimeField::Second) => words.push("second"),
        Some(_) => return Err(refused()),
    }
    if words.is_empty() || words.len() % 2 == 1 {
        return Err(refused());
    }
    let parts = words.chunks(2).map(|pair| part_of_interval(pair[0], pair[1]));
    let total = parts.sum::<Option<i64>>().filter(|total| total.abs() <= INTERVAL_MAX);
    total.ok_or_else(refused)
}

fn part_of_interval(count: &str, unit: &str) -> Option<i64> {
    let seconds = match unit.to_ascii_lowercase().as_str() {
        "week" | "weeks" => 7 * 86_400,
        "day" | "days" => 86_400,
        "hour" | "hours" => 3_600,
        "minute" | "minutes" => 60,
        "second" | "seconds" => 1,
        _ => return None,
    };
    let count: i32 = count.parse().ok()?;
    i64::from(count).checked_mul(seconds * 1_000_000).filter(|total| total.abs() <= INTERVAL_MAX)
}
