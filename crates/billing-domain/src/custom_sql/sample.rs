//! Trying a query before it is kept.

use serde_json::Value;
use time::{Duration, OffsetDateTime};

use super::interpret::run;
use super::program::{Aggregate, Expression, Program, Select, Source, WindowFunction};
use super::refusal::CustomSqlError;
use crate::customer::CustomerId;
use crate::event::{Event, Properties};
use crate::period::Period;

/// How many events the sample has.
const EVENTS: i64 = 3;

/// Runs the program on no events and on a sample whose properties are small numbers.
pub(super) fn check(program: &Program) -> Result<(), CustomSqlError> {
    let start = OffsetDateTime::UNIX_EPOCH;
    let Ok(period) = Period::new(start, start + Duration::days(EVENTS + 1)) else { return Ok(()) };
    let sample = sample(program, start);
    let sample: Vec<&Event> = sample.iter().collect();
    for (events, what) in [(&[][..], "no events"), (&sample[..], "a few events whose properties are small numbers")] {
        run(program, events, &period).quantity().map_err(|failure| {
            CustomSqlError::whole(format!("On {what} {failure}; CASE can tell such cases apart."))
        })?;
    }
    Ok(())
}

fn sample(program: &Program, start: OffsetDateTime) -> Vec<Event> {
    let names = properties_of(program);
    let Ok(customer) = "sample".parse::<CustomerId>() else { return Vec::new() };
    let event = |number: i64| {
        let properties = names.iter().map(|name| (name.clone(), Value::from(number)));
        Event {
            customer: customer.clone(),
            name: "sample".to_owned(),
            idempotency_id: number.to_string(),
            time_created: start + Duration::days(number),
            properties: properties.collect::<Properties>(),
        }
    };
    (1..=EVENTS).map(event).collect()
}

/// The names of the properties that a program reads.
fn properties_of(program: &Program) -> Vec<String> {
    let mut names = Vec::new();
    for select in program.named.iter().chain(&program.scalars).chain([&program.body]) {
        look_at_select(select, &mut |expression| {
            if let Expression::Property { name, .. } = expression
                && !names.contains(name)
            {
                names.push(name.clone());
            }
        });
    }
    names
}

fn look_at_select(select: &Select, look: &mut dyn FnMut(&Expression)) {
    if let Source::Derived(inner) = &select.source {
        look_at_select(inner, look);
    }
    let of_aggregate = |aggregate: &'_ Aggregate, look: &mut dyn FnMut(&Expression)| {
        aggregate.argument.iter().for_each(|argument| look_at(argument, look));
    };
    if let Some(group) = &select.group {
        group.keys.iter().chain(&group.having).for_each(|each| look_at(each, look));
        group.aggregates.iter().for_each(|aggregate| of_aggregate(aggregate, look));
    }
    for window in &select.windows {
        if let WindowFunction::Aggregate(aggregate) = &window.function {
            of_aggregate(aggregate, look);
        }
        window.partition.iter().chain(window.order.iter().map(|order| &order.by)).for_each(|each| look_at(each, look));
    }
    select.filter.iter().chain(&select.outputs).for_each(|each| look_at(each, look));
}

fn look_at(expression: &Expression, look: &mut dyn FnMut(&Expression)) {
    look(expression);
    expression.each_inside(&mut |inside| look_at(inside, look));
}
