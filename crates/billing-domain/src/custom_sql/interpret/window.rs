//! Windows: a value for each row, of the rows like it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bigdecimal::BigDecimal;

use super::aggregate::Total;
use super::{Machine, Row, Seen};
use crate::custom_sql::program::{Order, Window, WindowFunction};
use crate::custom_sql::value::{Number, Value};

impl Machine<'_> {
    /// The value of a window for each of the rows, in their order.
    pub(super) fn window(&self, window: &Window, rows: &[Row]) -> Vec<Value> {
        let mut partitions: BTreeMap<Row, Vec<(Row, usize)>> = BTreeMap::new();
        for (place, row) in rows.iter().enumerate() {
            let seen = Seen::row(row);
            let order = window.order.iter().map(|order| self.value(&order.by, seen)).collect();
            partitions.entry(self.values(&window.partition, seen)).or_default().push((order, place));
        }
        let mut values = vec![Value::Null; rows.len()];
        for partition in partitions.values_mut() {
            partition.sort_by(|(left, _), (right, _)| compare(&window.order, left, right));
            let (mut total, mut before) = (Total::default(), 0_u64);
            // Rows that are equal in the order share what is computed.
            for (places_before, equals) in (0_u64..).zip(partition.chunk_by(|(left, _), (right, _)| left == right)) {
                let value = match &window.function {
                    WindowFunction::Aggregate(aggregate) => {
                        for (_, place) in equals {
                            total.add(self.argument(aggregate, Seen::row(&rows[*place])));
                        }
                        total.value(aggregate.function)
                    }
                    WindowFunction::Rank | WindowFunction::RowNumber => number(before + 1),
                    WindowFunction::DenseRank => number(places_before + 1),
                };
                for (_, place) in equals {
                    values[*place] = value.clone();
                }
                before += equals.len() as u64;
            }
        }
        values
    }
}

fn number(value: u64) -> Value {
    Value::Number(Number::Finite(BigDecimal::from(value)))
}

fn compare(steps: &[Order], left: &[Value], right: &[Value]) -> Ordering {
    let mut ordering = Ordering::Equal;
    for (order, (left, right)) in steps.iter().zip(left.iter().zip(right)) {
        let step = match (left, right) {
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) if order.nulls_first => Ordering::Less,
            (Value::Null, _) => Ordering::Greater,
            (_, Value::Null) if order.nulls_first => Ordering::Greater,
            (_, Value::Null) => Ordering::Less,
            _ if order.descending => right.cmp(left),
            _ => left.cmp(right),
        };
        ordering = ordering.then(step);
    }
    ordering
}
