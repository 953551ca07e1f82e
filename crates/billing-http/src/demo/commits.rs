//! The demo's events: commits, each with the files it touched and the lines it added and took away.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};

use anyhow::Context;
use billing_domain::event::Event;
use flate2::read::GzDecoder;
use time::Date;

use crate::track::read_event;

/// Who committed something, and in which months: each is named by its first day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The customer id.
    pub id: String,
    /// That of the first commit.
    pub first_month: Date,
    /// That of the last one.
    pub last_month: Date,
}

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

    /// Only those of every `n`th author.
    #[must_use]
    pub fn of_every(mut self, n: usize) -> Self {
        let some: BTreeSet<_> = self.authors().into_iter().step_by(n).map(|author| author.id).collect();
        self.events.retain(|event| some.contains(event.customer.as_str()));
        self
    }

    /// Everyone who committed something, in alphabetical order.
    pub fn authors(&self) -> Vec<Author> {
        let mut spans: BTreeMap<&str, (Date, Date)> = BTreeMap::new();
        for event in &self.events {
            let month = month_of(event.time_created.date());
            let span = spans.entry(event.customer.as_str()).or_insert((month, month));
            *span = (span.0.min(month), span.1.max(month));
        }
        let author = |(id, (first_month, last_month)): (&str, _)| Author { id: id.to_owned(), first_month, last_month };
        spans.into_iter().map(author).collect()
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

fn month_of(date: Date) -> Date {
    // Every month has a first day.
    date.replace_day(1).unwrap_or(date)
}
