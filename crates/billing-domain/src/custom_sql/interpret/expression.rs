//! Expressions: a value for a row.

use bigdecimal::BigDecimal;

use super::{Machine, Seen};
use crate::custom_sql::program::{Comparison, Expression};
use crate::custom_sql::value::{Number, Value, converted, is_like, shifted, truncated};

impl Machine<'_> {
    /// The value of an expression in a row.
    pub(super) fn value(&self, expression: &Expression, seen: Seen<'_>) -> Value {
        let value = |expression| self.value(expression, seen);
        match expression {
            Expression::Column(place) => seen.row[*place].clone(),
            Expression::Windowed(place) => seen.windows[*place].clone(),
            Expression::Null(_) => Value::Null,
            Expression::Bool(flag) => Value::Bool(*flag),
            Expression::Number(number) => finite(number.clone()),
            Expression::Text(text) => Value::Text(text.as_str().into()),
            Expression::Time(time) => Value::Time(*time),
            Expression::Property { column, name } => self.property(&seen.row[*column], name),
            Expression::Negate(number) => match value(number) {
                Value::Number(number) => Value::Number(number.negated()),
                _ => Value::Null,
            },
            Expression::Arithmetic(operator, left, right) => match (value(left), value(right)) {
                (Value::Number(left), Value::Number(right)) => Value::Number(left.combined(*operator, &right)),
                _ => Value::Null,
            },
            Expression::Shift(time, microseconds) => match value(time) {
                Value::Time(time) => shifted(time, *microseconds).map_or(Value::Null, Value::Time),
                _ => Value::Null,
            },
            Expression::DateTrunc(unit, time) => match value(time) {
                Value::Time(time) => truncated(*unit, time).map_or(Value::Null, Value::Time),
                _ => Value::Null,
            },
            Expression::Cast(conversion, inner) => match value(inner) {
                Value::Null => Value::Null,
                inner => converted(*conversion, &inner),
            },
            Expression::Coalesce(all) => {
                all.iter().map(value).find(|value| *value != Value::Null).unwrap_or(Value::Null)
            }
            Expression::Case(branches, otherwise) => {
                let branch = branches.iter().find(|(condition, _)| value(condition) == Value::Bool(true));
                branch.map_or_else(|| value(otherwise), |(_, result)| value(result))
            }
            Expression::CaseOf(_, operand, branches, otherwise) => {
                let operand = value(operand);
                let is_it = |wanted| compared(Comparison::Equal, &operand, &value(wanted)) == Some(true);
                let branch = branches.iter().find(|(wanted, _)| is_it(wanted));
                branch.map_or_else(|| value(otherwise), |(_, result)| value(result))
            }
            Expression::Scalar(place) => {
                let scalar = || {
                    let rows = self.select(&self.program.scalars[*place]);
                    rows.into_iter().next().and_then(|row| row.into_iter().next()).unwrap_or(Value::Null)
                };
                self.scalars[*place].get_or_init(scalar).clone()
            }
            condition => self.condition(condition, seen).map_or(Value::Null, Value::Bool),
        }
    }

    /// Whether a condition holds; `None`: it is unknown.
    fn condition(&self, condition: &Expression, seen: Seen<'_>) -> Option<bool> {
        let value = |expression| self.value(expression, seen);
        let truth = |expression| match value(expression) {
            Value::Bool(flag) => Some(flag),
            _ => None,
        };
        match condition {
            Expression::Compare(comparison, _, left, right) => compared(*comparison, &value(left), &value(right)),
            Expression::Between(_, parts) => {
                let [it, low, high] = parts.each_ref().map(value);
                let at_least = compared(Comparison::GreaterOrEqual, &it, &low);
                all([at_least, compared(Comparison::LessOrEqual, &it, &high)].into_iter())
            }
            Expression::In(_, it, list) => {
                let it = value(it);
                any(list.iter().map(|other| compared(Comparison::Equal, &it, &value(other))))
            }
            Expression::Like(text, pattern) => match value(text) {
                Value::Text(text) => Some(is_like(&text, pattern)),
                _ => None,
            },
            Expression::IsNull(inner) => Some(value(inner) == Value::Null),
            Expression::Not(inner) => truth(inner).map(|flag| !flag),
            Expression::And(conditions) => all(conditions.iter().map(truth)),
            Expression::Or(conditions) => any(conditions.iter().map(truth)),
            _ => None,
        }
    }

    fn property(&self, properties: &Value, name: &str) -> Value {
        let Value::Properties(event) = properties else { return Value::Null };
        let text = self.events[*event].properties.text(name);
        text.map_or(Value::Null, |text| Value::Text(text.into()))
    }
}

fn finite(number: BigDecimal) -> Value {
    Value::Number(Number::Finite(number))
}

/// How two values compare; `None`: one of them is null or an invalid number.
fn compared(comparison: Comparison, left: &Value, right: &Value) -> Option<bool> {
    let is_unknown = |value: &Value| matches!(value, Value::Null | Value::Number(Number::Invalid));
    if is_unknown(left) || is_unknown(right) {
        return None;
    }
    Some(match comparison {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
    })
}

/// False when one is false; otherwise unknown when one is unknown.
fn all(conditions: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    any(conditions.map(|condition| condition.map(|flag| !flag))).map(|flag| !flag)
}

/// True when one is true; otherwise unknown when one is unknown.
fn any(conditions: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(false);
    for condition in conditions {
        match condition {
            Some(true) => return Some(true),
            Some(false) => {}
            None => result = None,
        }
    }
    result
}
