//! The demo's events: commits, each with the files it touched and the lines it added and took away.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};

use anyhow::Context;
use billing_domain::event::Event;
use flate2::read::GzDecoder;
use time::Date;
use time::macros::datetime;

use crate::track::read_event;

/// First instant of the busy month: the one with the most commits.
pub const MONTH_START: &str = "2022-10-01T00:00:00Z";
/// When the month's invoices are cut: half an hour after its end.
pub const BILLED_AT: &str = "2022-11-01T00:30:00Z";

/// 30,442 commits, one JSON object a line.
const FILE: &[u8] = include_bytes!("commits.jsonl.gz");

/// Commits of many authors over many years.
pub struct Commits {
    /// The events, in order of time.
    pub events: Vec<Event>,
}

impl Commits {
    /// All of them.
    ///
    /// # Errors
    /// When the file that is part of this program cannot be read.
    pub fn all() -> anyhow::Result<Self> {
        let lines = BufReader::new(GzDecoder::new(FILE)).lines();
        let event = |line: &str| read_event(line).map_err(|rejected| anyhow::anyhow!(rejected.reason));
        let events = lines.map(|line| event(&line?).context("a line of the demo's events"));
        Ok(Self { events: events.collect::<Result<_, _>>()? })
    }

    /// Only those of authors that committed something in the busy month.
    #[must_use]
    pub fn of_busy_authors(mut self) -> Self {
        let busy: BTreeSet<_> = self.in_month().map(|event| event.customer.clone()).collect();
        self.events.retain(|event| busy.contains(&event.customer));
        self
    }

    /// Those of the busy month, which its invoices price.
    pub fn in_month(&self) -> impl Iterator<Item = &Event> {
        let month = datetime!(2022-10-01 00:00 UTC)..datetime!(2022-11-01 00:00 UTC);
        self.events.iter().filter(move |event| month.contains(&event.time_created))
    }

    /// Everyone who committed something, in alphabetical order.
    pub fn authors(&self) -> Vec<String> {
        let authors: BTreeSet<_> = self.events.iter().map(|event| event.customer.to_string()).collect();
        authors.into_iter().collect()
    }

    /// The day of the first commit.
    pub fn first_day(&self) -> Date {
        self.events.iter().map(|event| event.time_created.date()).min().unwrap_or(Date::MIN)
    }

    /// The day of the last commit.
    pub fn last_day(&self) -> Date {
        self.events.iter().map(|event| event.time_created.date()).max().unwrap_or(Date::MAX)
    }
}
