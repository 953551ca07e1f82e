//! Aggregates: one value of many.

use std::collections::BTreeSet;

use bigdecimal::BigDecimal;

use super::{Machine, Seen};
use crate::custom_sql::program::{Aggregate, AggregateFunction, Arithmetic};
use crate::custom_sql::value::{Number, Value};

/// What the values of an aggregate come to so far. Null does not count.
#[derive(Default)]
pub(super) struct Total {
    count: u64,
    sum: Option<Number>,
    min: Option<Value>,
    max: Option<Value>,
    different: BTreeSet<Value>,
}

impl Machine<'_> {
    /// The argument of an aggregate in a row; of none: something that is not null.
    pub(super) fn argument(&self, aggregate: &Aggregate, seen: Seen<'_>) -> Value {
        aggregate.argument.as_ref().map_or(Value::Bool(true), |argument| self.value(argument, seen))
    }
}

impl Total {
    pub fn add(&mut self, value: Value) {
        if value == Value::Null {
            return;
        }
        self.count += 1;
        if let Value::Number(number) = &value {
            self.sum =
                Some(self.sum.take().map_or_else(|| number.clone(), |sum| sum.combined(Arithmetic::Add, number)));
        }
        // What could not be computed is greater than everything else, and yet it must not get lost in a minimum.
        let is_invalid = |value: &Value| *value == Value::Number(Number::Invalid);
        if self.min.as_ref().is_none_or(|min| !is_invalid(min) && (is_invalid(&value) || value < *min)) {
            self.min = Some(value.clone());
        }
        if self.max.as_ref().is_none_or(|max| value > *max) {
            self.max = Some(value.clone());
        }
        self.different.insert(value);
    }

    pub fn value(&self, function: AggregateFunction) -> Value {
        let number = |count: u64| Value::Number(Number::Finite(BigDecimal::from(count)));
        match function {
            AggregateFunction::Count => number(self.count),
            AggregateFunction::CountDistinct => number(self.different.len() as u64),
            AggregateFunction::Sum => self.sum.clone().map_or(Value::Null, Value::Number),
            AggregateFunction::Average => self.sum.as_ref().map_or(Value::Null, |sum| {
                Value::Number(sum.combined(Arithmetic::Divide, &Number::Finite(BigDecimal::from(self.count))))
            }),
            AggregateFunction::Min => self.min.clone().unwrap_or(Value::Null),
            AggregateFunction::Max => self.max.clone().unwrap_or(Value::Null),
        }
    }
}
