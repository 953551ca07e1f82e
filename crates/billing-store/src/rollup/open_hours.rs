//! Open hours: what comes in is counted in one row for all metrics, for as long as the hour lasts.
//!
//! Nearly every event is of the hour in which it is sent. Its customer, name and dimensions have one row for that hour,
//! which says what each metric has gained; the first event of a later hour closes it, and what it says is added to the
//! roll-ups by hour and by day. An event of any other hour is added to those at once. So an event moves one row, however
//! many metrics count it, and usage is what the roll-ups and the open hour say together.
//!
//! Only who holds the lane's lock writes here, so that what was read is still so when it is written.

use std::collections::BTreeMap;

use billing_domain::Error;
use billing_domain::event::Event;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::additions::Additions;
use super::gain::{Gains, for_each_count};
use super::{HOUR, RolledMetric, floor};
use crate::column::unreadable;
use crate::error::Failure;
use crate::statement::statement;

statement! {
    /// The open hours of some customers, names and dimensions, each with its place among those. Each is looked up, however
    /// small the table was when this was planned.
    FindOpenHours -> (BigInt, Timestamptz, Text) {
        "SELECT wanted.place, open.hour, open.gains::text
        FROM unnest(
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " event_names: Vec<String> as Array<Text>; ",
            " dimensions: Vec<String> as Array<Text>; "
        ) WITH ORDINALITY AS wanted (customer_key, event_name, dimensions, place)
        CROSS JOIN LATERAL (
            SELECT own.hour, own.gains FROM open_hours own
            WHERE own.customer_key = wanted.customer_key
                AND own.event_name = wanted.event_name
                AND own.dimensions = wanted.dimensions
            OFFSET 0
        ) open"
    }
}

statement! {
    /// Writes open hours in the place of what is there.
    KeepOpenHours -> BigInt {
        "INSERT INTO open_hours (organization_id, customer_key, event_name, dimensions, hour, gains)
        SELECT " organization: Uuid as SqlUuid; ", open.customer_key, open.event_name, open.dimensions, open.hour,
            open.gains::json
        FROM unnest(
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " event_names: Vec<String> as Array<Text>; ",
            " dimensions: Vec<String> as Array<Text>; ",
            " hours: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " gains: Vec<String> as Array<Text>; "
        ) AS open (customer_key, event_name, dimensions, hour, gains)
        ON CONFLICT (customer_key, event_name, dimensions) DO UPDATE SET hour = excluded.hour, gains = excluded.gains"
    }
}

statement! {
    /// Takes the open hours of one customer's events of a name away.
    RemoveOpenHours -> (Text, Timestamptz, Text) {
        "DELETE FROM open_hours
        WHERE customer_key = " customer: Uuid as SqlUuid; " AND event_name = " event_name: String as Text; "
            AND organization_id = " organization: Uuid as SqlUuid; "
        RETURNING dimensions, hour, gains::text"
    }
}

/// Room for so much JSON is made for each metric.
const GAIN_BYTES_EXPECTED: usize = 96;

/// Customer, event name and dimensions.
type OpenKey<'e> = (Uuid, &'e str, String);

/// What one hour has gained.
struct Hour {
    start: OffsetDateTime,
    gains: Gains,
}

/// What one transaction counts, in key order, so that no two transactions wait for each other.
#[derive(Default)]
pub(crate) struct Counts<'e> {
    open: BTreeMap<OpenKey<'e>, Hour>,
    closed: Additions,
}

impl<'e> Counts<'e> {
    /// Counts `event` for every metric in `metrics`, which must be those of its name. `now` is the customer's.
    pub(crate) fn add(&mut self, customer: Uuid, now: OffsetDateTime, event: &'e Event, metrics: &[RolledMetric]) {
        let start = floor(now, HOUR);
        if floor(event.time_created, HOUR) != start {
            return self.closed.add(super::BOTH_LEVELS, customer, event, metrics);
        }
        for_each_count(event, metrics, |metric, dimensions, measured| {
            let hour = self.open.entry((customer, &event.name, dimensions));
            let hour = hour.or_insert_with(|| Hour { start, gains: Gains::of_at_most(metrics.len()) });
            hour.gains.of(metric.id).add(&metric.aggregation, event, measured);
        });
    }

    /// Writes everything down.
    pub(crate) fn write(mut self, pg: &mut PgConnection, organization: Uuid) -> Result<(), Failure> {
        if !self.open.is_empty() {
            self.take_in_what_is_open(pg)?;
            self.keep_open(pg, organization)?;
        }
        Ok(self.closed.write(pg, organization)?)
    }

    /// Adds to each hour what it gained before, and closes those that are over.
    fn take_in_what_is_open(&mut self, pg: &mut PgConnection) -> Result<(), Failure> {
        let (customers, event_names, dimensions) = columns(self.open.keys());
        let find = FindOpenHours { customers, event_names, dimensions };
        let found: Vec<(i64, OffsetDateTime, String)> = find.load(pg)?;
        let mut wanted: Vec<(&OpenKey<'_>, &mut Hour)> = self.open.iter_mut().collect();
        for (place, start, gains) in found {
            let gains = read(&gains)?;
            let place = usize::try_from(place - 1).ok();
            let (key, hour) =
                place.and_then(|place| wanted.get_mut(place)).ok_or_else(|| unreadable("an open hour"))?;
            if start == hour.start {
                hour.gains.merge(gains);
                continue;
            }
            let found = Hour { start, gains };
            // Whose clock is behind that of whoever opened the hour adds to one that is over.
            let over = if start < hour.start { found } else { std::mem::replace(&mut **hour, found) };
            self.closed.add_hour(key.0, &key.2, over.start, over.gains);
        }
        Ok(())
    }

    fn keep_open(&self, pg: &mut PgConnection, organization: Uuid) -> Result<(), Failure> {
        let (customers, event_names, dimensions) = columns(self.open.keys());
        let hours = self.open.values().map(|hour| hour.start).collect();
        let gains = self.open.values().map(|hour| written(&hour.gains)).collect::<Result<_, _>>()?;
        KeepOpenHours { organization, customers, event_names, dimensions, hours, gains }.execute(pg)?;
        Ok(())
    }
}

/// Closes what is open of a customer's events of a name. Whoever counts a bucket again does this first, so that no event
/// is counted twice.
pub(crate) fn close(
    pg: &mut PgConnection,
    organization: Uuid,
    customer: Uuid,
    event_name: &str,
) -> Result<(), Failure> {
    let remove = RemoveOpenHours { customer, event_name: event_name.to_owned(), organization };
    let mut closed = Additions::default();
    for (dimensions, start, gains) in remove.load::<(String, OffsetDateTime, String)>(pg)? {
        closed.add_hour(customer, &dimensions, start, read(&gains)?);
    }
    Ok(closed.write(pg, organization)?)
}

fn columns<'k>(keys: impl Iterator<Item = &'k OpenKey<'k>>) -> (Vec<Uuid>, Vec<String>, Vec<String>) {
    keys.map(|(customer, name, dimensions)| (*customer, (*name).to_owned(), dimensions.clone())).collect()
}

fn written(gains: &Gains) -> Result<String, Error> {
    let mut json = Vec::with_capacity(gains.len() * GAIN_BYTES_EXPECTED);
    serde_json::to_writer(&mut json, gains).map_err(unreadable)?;
    String::from_utf8(json).map_err(unreadable)
}

fn read(text: &str) -> Result<Gains, Error> {
    serde_json::from_str(text).map_err(unreadable)
}
