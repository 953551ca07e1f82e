//! What must be there before events are stored: the months they are in, and the note of how late those of each name are.
//!
//! Both are made in short transactions of their own, before any key range is held. A month is attached under a lock that all of
//! the events have, and a name's note is one row for all customers: whoever held either while it stored thousands of events
//! would keep every other writer from storing any.

use std::collections::{BTreeMap, BTreeSet};

use billing_domain::Error;
use billing_domain::event::AHEAD_MAX;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Integer, Text, Timestamptz, Uuid as SqlUuid};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::Candidate;
use crate::lanes::Lane;
use crate::pg::error::Failure;
use crate::pg::month::{Month, moved};
use crate::pg::partition;
use crate::pg::statement::statement;
use crate::remembered::IngestCache;
use crate::rollup;
use crate::shared::Shared;

/// Months that are made before the first event can come that is dated in them.
const MONTHS_AHEAD: i32 = 2;

statement! {
    /// Registers event names, with an hour before which all their events are.
    RegisterNames -> BigInt {
        "INSERT INTO event_names AS name (organization_id, name, latest_before)
        SELECT " organization: Uuid as SqlUuid; ", sent.*
        FROM unnest(
            " names: Vec<String> as Array<Text>; ",
            " latest_before: Vec<OffsetDateTime> as Array<Timestamptz>; "
        ) AS sent
        ON CONFLICT (organization_id, name) DO UPDATE SET latest_before = excluded.latest_before
        WHERE name.latest_before < excluded.latest_before"
    }
}

statement! {
    /// The present instant, and how many days back some organization takes events in; at least so many.
    ReadWidestWindow -> (Timestamptz, Integer) {
        "SELECT clock_timestamp(), greatest(max(event_window_days), " days_min: i32 as Integer; ") FROM organizations"
    }
}

/// What some events of one organization need.
#[derive(Default)]
pub(super) struct Preparation {
    /// The months they are in or looked for in.
    pub(super) months: BTreeSet<Month>,
    /// By name, the first hour behind all of them. A new metric takes an hour for complete only if no event came before
    /// it; it looks here, after waiting for the key ranges.
    pub(super) names: BTreeMap<String, OffsetDateTime>,
}

impl Preparation {
    /// What the candidates need.
    pub(super) fn of(candidates: &[Candidate<'_>]) -> Self {
        let (mut of_events, mut latest) = (BTreeSet::new(), BTreeMap::<&str, OffsetDateTime>::new());
        for candidate in candidates {
            let event = &candidate.row.event;
            of_events.insert(candidate.months);
            let latest = latest.entry(&event.name).or_insert(event.time_created);
            *latest = event.time_created.max(*latest);
        }
        let months =
            of_events.into_iter().flat_map(|months| Month::range(months.probed).chain([months.dated])).collect();
        let names = latest.into_iter().map(|(name, latest)| (name.to_owned(), rollup::hour_after(latest))).collect();
        Self { months, names }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.months.is_empty() && self.names.is_empty()
    }

    /// Without what is there in `made`.
    pub(super) fn without(mut self, made: &Self) -> Self {
        self.months.retain(|month| !made.months.contains(month));
        self.names.retain(|name, before| made.names.get(name).is_none_or(|made| *made < *before));
        self
    }

    /// Without what is remembered to be there.
    pub(super) fn without_known(mut self, cache: &IngestCache, organization: Uuid) -> Self {
        self.months.retain(|month| !cache.has_month(*month));
        self.names.retain(|name, before| !cache.has_name(organization, name, *before));
        self
    }

    /// Together with what is there in `more`.
    pub(super) fn join(&mut self, more: Self) {
        self.months.extend(more.months);
        self.names.extend(more.names);
    }
}

impl Lane {
    /// Makes what is missing in the lane, and remembers that it is there.
    pub(super) fn make_ready(&self, organization: Uuid, missing: &Preparation) -> Result<(), Failure> {
        for month in &missing.months {
            self.create_month(*month)?;
        }
        if !missing.months.is_empty() {
            partition::wait_for_readers(&self.worker_pool)?;
        }
        if !missing.names.is_empty() {
            let (names, latest_before) = missing.names.iter().map(|(name, before)| (name.clone(), *before)).unzip();
            let register = RegisterNames { organization, names, latest_before };
            self.worker_pool.transact_again(|pg| Ok(register.clone().execute(pg).map(drop)?))?;
        }
        self.ingest.remember_months(missing.months.iter().copied());
        self.ingest.remember_names(organization, &missing.names);
        Ok(())
    }

    /// Makes the months from the first to the last that are missing; how many those were.
    fn make_months(&self, months: (Month, Month)) -> Result<usize, Failure> {
        let known = self.pool.run(partition::list)?;
        let missing: Vec<Month> = Month::range(months).filter(|month| !known.contains(month)).collect();
        for month in &missing {
            self.create_month(*month)?;
        }
        partition::wait_for_readers(&self.pool)?;
        let made = missing.len();
        self.ingest.remember_months(known.into_iter().chain(missing));
        Ok(made)
    }
}

impl Shared {
    /// Makes the months of events before anybody needs them: from the earliest that some organization takes events in for
    /// to the one after next; how many were missing. Those of older events are made by whoever brings them. After an error
    /// what was made stays.
    pub(crate) fn make_months_ahead(&self) -> Result<usize, Error> {
        let widest = ReadWidestWindow { days_min: 1 };
        let (now, days): (OffsetDateTime, i32) =
            self.pool.run(|pg| widest.clone().get_result(pg)).map_err(Failure::into_error)?;
        let first = Month::of(moved(now, -Duration::days(i64::from(days))));
        let last = Month::of(moved(now, AHEAD_MAX)).later(MONTHS_AHEAD);
        let mut made = 0;
        for lane in self.lanes.all() {
            let missing = self.lanes.with(lane, |lane| lane.make_months((first, last)));
            made += missing.map_err(Failure::into_error)?;
        }
        Ok(made)
    }
}
