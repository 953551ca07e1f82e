//! Hot buckets: what comes in is counted in one row for all metrics, for as long as the hour lasts.
//!
//! Nearly every event is of the hour in which it is sent. Its customer, name and dimensions have one row for that hour,
//! which says what each metric has gained; the first event of a later hour closes it, and what it says is added to the
//! roll-ups by hour and by day. An event of any other hour is added to those at once. So an event moves one row, however
//! many metrics count it, and usage is what the roll-ups and the hot bucket say together.
//!
//! Only who holds the key range's lock writes here, so that what was read is still so when it is written. What this process wrote
//! itself it does not even read again: see [`HotBucketCache`](super::hot_bucket_cache::HotBucketCache).

use std::collections::BTreeMap;

use billing_domain::Error;
use billing_domain::event::Event;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Integer, Json, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::bucket::{BOTH_LEVELS, HOUR, RolledMetric, floor};
use super::delta::{BucketDeltas, HotBucketKey, Hour, for_each_count};
use super::hot_bucket_cache::{CachedHotBuckets, Transaction, Written};
use super::upsert::Additions;
use crate::pg::column::{JsonText, unreadable};
use crate::pg::error::Failure;
use crate::pg::statement::statement;

statement! {
    /// The hot buckets of some customers, names and dimensions, each with its place among those. Each is looked up, however
    /// small the table was when this was planned.
    FindHotBuckets -> (BigInt, Timestamptz, Text) {
        "SELECT wanted.place, open.hour, open.deltas::text
        FROM unnest(
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " event_names: Vec<String> as Array<Text>; ",
            " dimensions: Vec<String> as Array<Text>; "
        ) WITH ORDINALITY AS wanted (customer_key, event_name, dimensions, place)
        CROSS JOIN LATERAL (
            SELECT bucket.hour, bucket.deltas FROM hot_buckets bucket
            WHERE bucket.customer_key = wanted.customer_key
                AND bucket.event_name = wanted.event_name
                AND bucket.dimensions = wanted.dimensions
            OFFSET 0
        ) open"
    }
}

statement! {
    /// Opens the first hours of customers, names and dimensions.
    InsertHotBuckets -> BigInt {
        "INSERT INTO hot_buckets (organization_id, customer_key, event_name, dimensions, hour, deltas)
        SELECT " organization: Uuid as SqlUuid; ", open.customer_key, open.event_name, open.dimensions, open.hour,
            open.deltas
        FROM unnest(
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " event_names: Vec<String> as Array<Text>; ",
            " dimensions: Vec<String> as Array<Text>; ",
            " hours: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " deltas: Vec<JsonText<String>> as Array<Json>; "
        ) AS open (customer_key, event_name, dimensions, hour, deltas)"
    }
}

statement! {
    /// Writes hot buckets in the place of what is there, if that is what one takes it for: where a transaction is named it
    /// must be the one that wrote it.
    KeepHotBuckets -> BigInt {
        "UPDATE hot_buckets bucket SET hour = open.hour, deltas = open.deltas
        FROM (
            SELECT unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ") AS customer_key,
                unnest(" event_names: Vec<String> as Array<Text>; ") AS event_name,
                unnest(" dimensions: Vec<String> as Array<Text>; ") AS dimensions,
                unnest(" hours: Vec<OffsetDateTime> as Array<Timestamptz>; ") AS hour,
                unnest(" deltas: Vec<JsonText<String>> as Array<Json>; ") AS deltas,
                unnest(" writers: Vec<Option<i32>> as Array<Nullable<Integer>>; ") AS writer
        ) AS open
        WHERE bucket.customer_key = open.customer_key
            AND bucket.event_name = open.event_name
            AND bucket.dimensions = open.dimensions
            AND (open.writer IS NULL OR bucket.xmin = open.writer)"
    }
}

statement! {
    /// Takes the hot buckets of one customer's events of a name away.
    RemoveHotBuckets -> (Text, Timestamptz, Text) {
        "DELETE FROM hot_buckets
        WHERE customer_key = " customer: Uuid as SqlUuid; " AND event_name = " event_name: String as Text; "
            AND organization_id = " organization: Uuid as SqlUuid; "
        RETURNING dimensions, hour, deltas::text"
    }
}

/// Room for so much JSON is made for each metric.
const DELTA_BYTES_EXPECTED: usize = 64;

/// What one transaction counts in an hour.
struct Counted {
    key: HotBucketKey,
    hour: Hour,
    /// What is there to be replaced.
    replaced: Replaced,
}

/// What a hot bucket is written in the place of.
enum Replaced {
    Nothing,
    /// Of what was read in this transaction.
    Read,
    /// Of what this transaction wrote.
    WrittenBy(Transaction),
}

/// An event that counts for metrics, those of its name.
pub(crate) struct Counting<'e, 'm> {
    pub(crate) customer: Uuid,
    /// The customer's.
    pub(crate) now: OffsetDateTime,
    pub(crate) event: &'e Event,
    pub(crate) metrics: &'m [RolledMetric],
}

impl<'e> Counting<'e, '_> {
    fn owner(&self) -> (Uuid, &'e str) {
        (self.customer, &self.event.name)
    }
}

/// What one transaction counts.
pub(crate) struct Counts<'r> {
    cached: &'r CachedHotBuckets<'r>,
    /// In the order of their keys.
    open: Vec<Counted>,
    closed: Additions,
}

impl<'r> Counts<'r> {
    /// Counts events, on top of what is remembered.
    pub(crate) fn of(mut events: Vec<Counting<'_, '_>>, cached: &'r CachedHotBuckets<'r>) -> Self {
        // Neighbours in the index are neighbours in the statements.
        events.sort_unstable_by(|a, b| a.owner().cmp(&b.owner()));
        let mut counts = Self { cached, open: Vec::with_capacity(events.len()), closed: Additions::default() };
        for of_owner in events.chunk_by(|a, b| a.owner() == b.owner()) {
            let mut by_dimensions = BTreeMap::new();
            of_owner.iter().for_each(|counting| counts.add(counting, &mut by_dimensions));
            counts.open.extend(by_dimensions.into_values());
        }
        counts
    }

    /// Counts an event, beside what is open of its customer and name.
    fn add(&mut self, counting: &Counting<'_, '_>, by_dimensions: &mut BTreeMap<String, Counted>) {
        let Counting { customer, now, event, metrics } = *counting;
        let start = floor(now, HOUR);
        if floor(event.time_created, HOUR) != start {
            return self.closed.add(BOTH_LEVELS, customer, event, metrics);
        }
        for_each_count(event, metrics, |metric, dimensions, measured| {
            let counted = by_dimensions.entry(dimensions).or_insert_with_key(|dimensions| {
                self.open((customer, event.name.clone(), dimensions.clone()), start, metrics.len())
            });
            counted.hour.deltas.of(metric.id).add(&metric.aggregation, event, measured);
        });
    }

    /// An hour that is open from now on, or still.
    fn open(&mut self, key: HotBucketKey, start: OffsetDateTime, metrics: usize) -> Counted {
        let remembered = self.cached.take(&key);
        let hour = Hour { start, deltas: BucketDeltas::of_at_most(metrics) };
        let mut counted = Counted { key, hour, replaced: Replaced::Nothing };
        // What is ahead of this customer's clock is read again when all is counted.
        if let Some((writer, hour)) = remembered.filter(|(_, hour)| hour.start <= start) {
            counted.take_in(hour, Replaced::WrittenBy(writer), &mut self.closed);
        }
        counted
    }

    /// Writes everything down, and says what is to be remembered of it once it is committed.
    pub(crate) fn write(mut self, pg: &mut PgConnection, organization: Uuid) -> Result<Written, Failure> {
        self.take_in_what_is_hot(pg)?;
        self.keep_hot(pg, organization)?;
        self.closed.write(pg, organization)?;
        Ok(self.cached.written(self.open.into_iter().map(|counted| (counted.key, counted.hour)).collect()))
    }

    /// Adds to each hour that is not remembered what it gained before, and closes those that are over.
    fn take_in_what_is_hot(&mut self, pg: &mut PgConnection) -> Result<(), Failure> {
        let mut unknown: Vec<_> =
            self.open.iter_mut().filter(|counted| matches!(counted.replaced, Replaced::Nothing)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let (customers, event_names, dimensions) = columns(unknown.iter().map(|counted| &**counted));
        let find = FindHotBuckets { customers, event_names, dimensions };
        for (place, start, deltas) in find.load::<(i64, OffsetDateTime, String)>(pg)? {
            let counted = usize::try_from(place - 1).ok().and_then(|place| unknown.get_mut(place));
            let counted = counted.ok_or_else(|| unreadable("a hot bucket"))?;
            counted.take_in(Hour { start, deltas: deltas_of(&deltas)? }, Replaced::Read, &mut self.closed);
        }
        Ok(())
    }

    fn keep_hot(&self, pg: &mut PgConnection, organization: Uuid) -> Result<(), Failure> {
        let (new, known): (Vec<_>, Vec<_>) =
            self.open.iter().partition(|counted| matches!(counted.replaced, Replaced::Nothing));
        if !new.is_empty() {
            let (customers, event_names, dimensions) = columns(new.iter().copied());
            let (hours, deltas) = contents(&new)?;
            InsertHotBuckets { organization, customers, event_names, dimensions, hours, deltas }.execute(pg)?;
        }
        if !known.is_empty() {
            let (customers, event_names, dimensions) = columns(known.iter().copied());
            let (hours, deltas) = contents(&known)?;
            let writers = known.iter().map(|counted| counted.replaced.writer()).collect();
            let keep = KeepHotBuckets { customers, event_names, dimensions, hours, deltas, writers };
            if keep.execute(pg)? != known.len() {
                self.cached.note_conflict();
                return Err(Failure::Conflict("somebody else has written a hot bucket".to_owned()));
            }
        }
        Ok(())
    }
}

impl Counted {
    /// Adds what was there before, or closes it if it is over.
    fn take_in(&mut self, found: Hour, replaced: Replaced, closed: &mut Additions) {
        self.replaced = replaced;
        if found.start == self.hour.start {
            return self.hour.deltas.merge(found.deltas);
        }
        // Whose clock is behind that of whoever opened the hour adds to one that is over.
        let over = if found.start < self.hour.start { found } else { std::mem::replace(&mut self.hour, found) };
        closed.add_hour(self.key.0, &self.key.2, over.start, over.deltas);
    }
}

impl Replaced {
    fn writer(&self) -> Option<i32> {
        match self {
            Self::WrittenBy(transaction) => Some(transaction.as_written()),
            Self::Nothing | Self::Read => None,
        }
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
    let remove = RemoveHotBuckets { customer, event_name: event_name.to_owned(), organization };
    let mut closed = Additions::default();
    for (dimensions, start, deltas) in remove.load::<(String, OffsetDateTime, String)>(pg)? {
        closed.add_hour(customer, &dimensions, start, deltas_of(&deltas)?);
    }
    Ok(closed.write(pg, organization)?)
}

fn columns<'c>(counted: impl Iterator<Item = &'c Counted>) -> (Vec<Uuid>, Vec<String>, Vec<String>) {
    counted.map(|counted| counted.key.clone()).collect()
}

fn contents(counted: &[&Counted]) -> Result<(Vec<OffsetDateTime>, Vec<JsonText<String>>), Error> {
    counted.iter().map(|counted| Ok((counted.hour.start, JsonText(json_of(&counted.hour.deltas)?)))).collect()
}

fn json_of(deltas: &BucketDeltas) -> Result<String, Error> {
    let mut json = Vec::with_capacity(deltas.len() * DELTA_BYTES_EXPECTED);
    serde_json::to_writer(&mut json, deltas).map_err(unreadable)?;
    String::from_utf8(json).map_err(unreadable)
}

fn deltas_of(text: &str) -> Result<BucketDeltas, Error> {
    serde_json::from_str(text).map_err(unreadable)
}

/// What is read of a hot bucket, as it is written.
#[cfg(feature = "testing")]
pub(crate) fn written_again(deltas: &str) -> Result<String, Error> {
    json_of(&deltas_of(deltas)?)
}

#[cfg(test)]
mod tests {
    use billing_domain::event::Properties;
    use billing_domain::metric::{Aggregation, MetricFilters};
    use time::macros::datetime;

    use super::super::hot_bucket_cache::HotBucketCache;
    use super::*;

    #[test]
    fn events_count_in_the_hour_in_which_their_customer_lives() {
        let now = datetime!(2026-01-02 10:30 UTC);
        #[rustfmt::skip]
        let cases = [
            // remembered,                          count, why
            (None,                                  2,     "nothing is remembered"),
            (Some(datetime!(2026-01-02 10:00 UTC)), 7,     "what the hour has gained before is taken in"),
            (Some(datetime!(2026-01-02 09:00 UTC)), 2,     "an hour that is over is closed"),
            (Some(datetime!(2026-01-02 11:00 UTC)), 2,     "an hour ahead of this clock is not changed by it"),
        ];
        let metric = RolledMetric {
            id: Uuid::from_u128(1),
            aggregation: Aggregation::Count,
            filters: MetricFilters::default(),
            key_sets: vec![Vec::new()],
        };
        let event = Event {
            customer: "acme".parse().expect("an id"),
            name: "call".to_owned(),
            idempotency_id: "a".to_owned(),
            time_created: now,
            properties: Properties::new(),
        };
        for (remembered, count, why) in cases {
            let written = HotBucketCache::one_of(1);
            let before = written.begin(1, Transaction(7));
            let hours = remembered.map(|start| {
                let mut deltas = BucketDeltas::of_at_most(1);
                deltas.of(metric.id).event_count = 5;
                ((Uuid::from_u128(2), event.name.clone(), String::new()), Hour { start, deltas })
            });
            written.remember(before.written(hours.into_iter().collect()));
            let cached = written.begin(1, Transaction(8));
            let metrics = std::slice::from_ref(&metric);
            let counting = || Counting { customer: Uuid::from_u128(2), now, event: &event, metrics };
            let mut counts = Counts::of(vec![counting(), counting()], &cached);
            let [counted] = &mut counts.open[..] else { panic!("one hour is open: {why}") };
            let hour = (counted.hour.start, counted.hour.deltas.of(metric.id).event_count);
            assert_eq!(hour, (datetime!(2026-01-02 10:00 UTC), count), "{why}");
        }
    }
}
