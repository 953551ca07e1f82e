//! Counting hours of a customer again, where corrections change them: the hours that an event leaves and enters, and their days.
//!
//! What cannot be taken away again (a maximum, what came last) is counted again of all events of the hour. To read them takes as long
//! as they are many, and who stores events of the customer is to wait for as little as can be. So they are read beside those who store
//! events, up to an arrival number, and what has arrived meanwhile is added once nobody does any more.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use billing_domain::event::{Event, EventCorrection};
use diesel::prelude::*;
use diesel::sql_types::{Array, Timestamptz, Uuid as SqlUuid};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::event::events_of;
use super::rollup::rolled_metrics;
use crate::pg::error::Failure;
use crate::pg::schema::event_arrivals;
use crate::pg::statement::statement;
use crate::rollup::{Additions, HOUR, HOURS_ALONE, RolledMetric, floor, hot_bucket, make_day_of_hours};

statement! {
    /// Removes hours of one customer.
    RemoveHours -> SqlUuid {
        "DELETE FROM usage_rollup
        WHERE customer_key = " customer: Uuid as SqlUuid; " AND metric_id = ANY (" metrics: Vec<Uuid> as Array<SqlUuid>; ")
            AND bucket_hours = 1 AND bucket = ANY (" hours: Vec<OffsetDateTime> as Array<Timestamptz>; ")
        RETURNING metric_id"
    }
}

/// What hours of a customer will be once corrections are made.
pub(super) struct Recount<'c> {
    organization: Uuid,
    customer: Uuid,
    key_range: i32,
    corrections: &'c [EventCorrection],
    counted: Counted,
}

/// The hours as of an arrival number.
struct Counted {
    /// The last arrival number of the key range and that of its last correction.
    reached: (i64, i64),
    /// What is rolled up of the names of events.
    metrics: HashMap<String, Vec<RolledMetric>>,
    /// The hours of each name of which something is rolled up.
    hours: BTreeMap<String, BTreeSet<OffsetDateTime>>,
    additions: Additions,
}

impl<'c> Recount<'c> {
    /// Counts the hours as they will be, of all events that have arrived.
    pub(super) fn read(
        pg: &mut PgConnection,
        (organization, customer): (Uuid, Uuid),
        key_range: i32,
        corrections: &'c [EventCorrection],
    ) -> Result<Self, Failure> {
        let known = (reached(pg, organization, key_range)?, rolled_metrics(pg, organization)?);
        let counted = Counted::of(customer, known, corrections);
        let mut recount = Self { organization, customer, key_range, corrections, counted };
        recount.count_events(pg, &(i64::MIN..=recount.counted.reached.0))?;
        Ok(recount)
    }

    /// Adds what has arrived since; once nobody stores events of the customer, and before the corrections are written. Where others
    /// were corrected, or other metrics are rolled up by now, all is counted again.
    pub(super) fn catch_up(&mut self, pg: &mut PgConnection) -> Result<(), Failure> {
        let (last_arrival, last_correction) = self.counted.reached;
        let metrics = rolled_metrics(pg, self.organization)?;
        if reached(pg, self.organization, self.key_range)?.1 == last_correction && metrics == self.counted.metrics {
            return self.count_events(pg, &(last_arrival + 1..=i64::MAX));
        }
        *self = Self::read(pg, (self.organization, self.customer), self.key_range, self.corrections)?;
        Ok(())
    }

    /// Writes the hours in the place of what is there, and makes their days of them.
    pub(super) fn write(self, pg: &mut PgConnection) -> Result<(), Failure> {
        let Self { organization, customer, counted: Counted { metrics, hours, additions, .. }, .. } = self;
        for (name, hours) in &hours {
            hot_bucket::close(pg, organization, customer, name)?;
            let metrics = metrics[name].iter().map(|metric| metric.id).collect();
            RemoveHours { customer, metrics, hours: hours.iter().copied().collect() }.load::<Uuid>(pg)?;
        }
        additions.write(pg, organization)?;
        for (name, hours) in &hours {
            let days: BTreeSet<OffsetDateTime> = hours.iter().map(|hour| floor(*hour, 24 * HOUR)).collect();
            for metric in &metrics[name] {
                days.iter().try_for_each(|day| make_day_of_hours(pg, customer, metric.id, *day))?;
            }
        }
        Ok(())
    }

    /// Counts the events of the hours that are not to be corrected.
    fn count_events(&mut self, pg: &mut PgConnection, arrivals: &RangeInclusive<i64>) -> Result<(), Failure> {
        let Counted { metrics, hours, additions, .. } = &mut self.counted;
        let corrected: HashSet<_> = self.corrections.iter().map(|correction| identity(&correction.before)).collect();
        for (name, hours) in &*hours {
            for hour in hours {
                let mut after: Option<Event> = None;
                loop {
                    let within = (*hour, hour.saturating_add(Duration::HOUR));
                    let whose = (self.organization, self.customer);
                    let page = events_of(pg, whose, name, within, arrivals, after.as_ref())?;
                    let as_they_are = page.iter().filter(|event| !corrected.contains(&identity(event)));
                    as_they_are.for_each(|event| additions.add(HOURS_ALONE, self.customer, event, &metrics[name]));
                    after = page.into_iter().last();
                    if after.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Counted {
    /// What the corrected events will count for, and no others.
    fn of(
        customer: Uuid,
        (reached, metrics): ((i64, i64), HashMap<String, Vec<RolledMetric>>),
        corrections: &[EventCorrection],
    ) -> Self {
        let (mut hours, mut additions) = (BTreeMap::<String, BTreeSet<_>>::new(), Additions::default());
        for correction in corrections {
            let name = &correction.before.name;
            let Some(counting) = metrics.get(name) else { continue };
            hours.entry(name.clone()).or_default().extend(correction.instants().map(|at| floor(at, HOUR)));
            if let Some(event) = &correction.after {
                additions.add(HOURS_ALONE, customer, event, counting);
            }
        }
        Self { reached, metrics, hours, additions }
    }
}

/// What tells an event of a customer from all others.
fn identity(event: &Event) -> (&str, OffsetDateTime) {
    (&event.idempotency_id, event.time_created)
}

/// The last arrival number of a key range, and the number of its last correction.
fn reached(pg: &mut PgConnection, organization: Uuid, key_range: i32) -> Result<(i64, i64), Failure> {
    let query = event_arrivals::table.find((organization, key_range));
    let reached = query.select((event_arrivals::last_arrival, event_arrivals::last_correction)).first(pg).optional()?;
    Ok(reached.unwrap_or_default())
}
