//! The machine that runs a program on events in memory. It is also the oracle for the one that runs it in Postgres.

mod aggregate;
mod expression;
mod window;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bigdecimal::BigDecimal;

use super::program::{Expression, Group, Program, Select, Source};
use super::result::{CustomResult, RESULT_DECIMALS};
use super::value::{Number, Value, rounded};
use crate::event::Event;
use crate::period::Period;

type Row = Vec<Value>;

/// Runs a program on the events that it is to see.
pub fn run(program: &Program, events: &[&Event], period: &Period) -> CustomResult {
    let machine = Machine {
        program,
        events,
        period,
        named: program.named.iter().map(|_| OnceCell::new()).collect(),
        scalars: program.scalars.iter().map(|_| OnceCell::new()).collect(),
    };
    let mut result = CustomResult::default();
    for row in machine.select(&program.body) {
        let value = match row.first() {
            Some(Value::Number(Number::Finite(value))) => rounded(value, RESULT_DECIMALS),
            Some(Value::Number(Number::Invalid)) => {
                result.is_invalid = true;
                continue;
            }
            _ => BigDecimal::default(),
        };
        result.least = Some(result.least.map_or_else(|| value.clone(), |least| least.min(value.clone())));
        result.greatest = result.greatest.max(Some(value));
    }
    result
}

/// A program at work. Queries with a name and queries that are a value run once, when they are first needed.
struct Machine<'p> {
    program: &'p Program,
    events: &'p [&'p Event],
    period: &'p Period,
    named: Vec<OnceCell<Rc<[Row]>>>,
    scalars: Vec<OnceCell<Value>>,
}

/// What an expression sees.
#[derive(Clone, Copy)]
struct Seen<'r> {
    row: &'r [Value],
    windows: &'r [Value],
}

impl<'r> Seen<'r> {
    fn row(row: &'r [Value]) -> Self {
        Self { row, windows: &[] }
    }
}

impl Machine<'_> {
    fn select(&self, select: &Select) -> Vec<Row> {
        let mut rows = self.rows_of(&select.source);
        self.filter(&mut rows, select.filter.as_ref());
        if let Some(group) = &select.group {
            rows = self.grouped(group, &rows);
            self.filter(&mut rows, group.having.as_ref());
        }
        let windows: Vec<Vec<Value>> = select.windows.iter().map(|window| self.window(window, &rows)).collect();
        let output = |(place, row): (usize, &Row)| {
            let windows: Vec<Value> = windows.iter().map(|column| column[place].clone()).collect();
            let seen = Seen { row, windows: &windows };
            select.outputs.iter().map(|output| self.value(output, seen)).collect()
        };
        rows.iter().enumerate().map(output).collect()
    }

    fn filter(&self, rows: &mut Vec<Row>, filter: Option<&Expression>) {
        if let Some(filter) = filter {
            rows.retain(|row| self.value(filter, Seen::row(row)) == Value::Bool(true));
        }
    }

    fn rows_of(&self, source: &Source) -> Vec<Row> {
        match source {
            Source::Events => (0..self.events.len()).map(|place| self.row_of_event(place)).collect(),
            Source::Named(place) => {
                let rows = self.named[*place].get_or_init(|| self.select(&self.program.named[*place]).into());
                rows.to_vec()
            }
            Source::Derived(select) => self.select(select),
        }
    }

    /// The columns of [`EVENT_COLUMNS`](super::program::EVENT_COLUMNS).
    fn row_of_event(&self, place: usize) -> Row {
        let event = self.events[place];
        vec![
            Value::Properties(place),
            Value::Time(event.time_created),
            Value::Text(event.name.as_str().into()),
            Value::Time(self.period.start()),
            Value::Time(self.period.last_instant()),
            Value::Text(event.idempotency_id.as_str().into()),
        ]
    }

    fn grouped(&self, group: &Group, rows: &[Row]) -> Vec<Row> {
        let mut groups: BTreeMap<Row, Vec<&Row>> = BTreeMap::new();
        if group.keys.is_empty() {
            groups.insert(Vec::new(), Vec::new());
        }
        for row in rows {
            let key = self.values(&group.keys, Seen::row(row));
            groups.entry(key).or_default().push(row);
        }
        let put_together = |(mut key, rows): (Row, Vec<&Row>)| {
            for aggregate in &group.aggregates {
                let mut total = aggregate::Total::default();
                for row in &rows {
                    total.add(self.argument(aggregate, Seen::row(row)));
                }
                key.push(total.value(aggregate.function));
            }
            key
        };
        groups.into_iter().map(put_together).collect()
    }

    fn values(&self, expressions: &[Expression], seen: Seen<'_>) -> Row {
        expressions.iter().map(|expression| self.value(expression, seen)).collect()
    }
}
