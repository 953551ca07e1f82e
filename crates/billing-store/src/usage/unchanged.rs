//! Figures that no roll-up tells, remembered for as long as nothing has been added to what they stand on.
//!
//! How many different texts there are, and what the busiest window of a rate comes to, cannot be put together from those of
//! shorter spans. They are read from the events, which takes as long as there are events. But roll-ups tell how many events
//! count in each hour, and the key range which correction was the last: while the hours that a figure stands on have as many as when
//! it was read, and nothing was corrected since, it is the same. All are read in one snapshot, so that the count is of the very events that the figure is of.
//!
//! What a rate comes to is the most that any event ends a window of, wherever that begins. So it is that of the busiest of its days,
//! each of which is remembered by itself: a day that has ended is read once, whatever period it is asked for in.

use std::borrow::Cow;

use billing_domain::metric::{Aggregation, Measure, Rate};
use billing_domain::period::{Period, Span};
use billing_domain::usage::{Usage, UsageRequest};
use time::{Duration, OffsetDateTime};

use crate::pg::month::moved;
use crate::remembered::{EventsVersion, UnchangedFigures};
use crate::rollup::{HOUR, ceiling, floor};

/// Seconds in a day.
const DAY: i64 = 24 * HOUR;

/// Most days that a rate is put together from.
const DAYS_MAX: i64 = 400;

/// What a request is put together from: itself, or the days of a rate in UTC. Not where a window is longer than a day: each
/// day would be read with what its windows begin in, which may be a year.
pub(super) fn parts(request: &UsageRequest) -> Vec<Cow<'_, UsageRequest>> {
    let (start, end) = (request.period.start(), request.period.end());
    let is_divided =
        matches!(&request.metric.measure, Measure::Rate(Rate { window, .. }) if longest(*window) <= Duration::DAY);
    let (Some(first), last) = (ceiling(start, DAY), floor(end, DAY)) else { return vec![Cow::Borrowed(request)] };
    let days = (last - first).whole_days();
    if !is_divided || !(0..=DAYS_MAX).contains(&days) {
        return vec![Cow::Borrowed(request)];
    }
    let midnights = (0..=days).map(|day| first + Duration::days(day));
    let mut edges: Vec<OffsetDateTime> = [start].into_iter().chain(midnights).chain([end]).collect();
    edges.dedup();
    let part = |edges: &[OffsetDateTime]| {
        let period = Period::new(edges[0], edges[1]).ok()?;
        Some(Cow::Owned(UsageRequest { period, ..request.clone() }))
    };
    edges.windows(2).filter_map(part).collect()
}

/// What a request comes to by its parts: one, or the days of a rate.
pub(super) fn put_together(parts: Vec<Usage>) -> Usage {
    let event_count = parts.iter().map(|part| part.event_count).sum();
    // A day without events has no window, not one that comes to nothing: sums may be less.
    let busiest = parts.into_iter().filter(|part| part.event_count > 0).map(|part| part.quantity).max();
    busiest.map_or_else(Usage::zero, |quantity| Usage { quantity, event_count })
}

/// How one request, or a part of one, is answered.
pub(super) struct Plan<'r> {
    pub(super) request: Cow<'r, UsageRequest>,
    /// Since when its roll-ups are complete.
    pub(super) beginning: Option<OffsetDateTime>,
    /// The hours whose events its figure stands on, if it is one to be remembered.
    pub(super) hours: Option<Period>,
    /// The figure that is remembered, and the events of those hours then.
    known: Option<(EventsVersion, Usage)>,
}

impl<'r> Plan<'r> {
    pub(super) fn new(
        request: Cow<'r, UsageRequest>,
        beginning: Option<OffsetDateTime>,
        figures: &UnchangedFigures,
    ) -> Self {
        let hours = hours_of(&request, beginning);
        let known = hours.and_then(|_| figures.find(&request));
        Self { request, beginning, hours, known }
    }

    /// The figure, if it is known.
    pub(super) fn known(&self) -> Option<&Usage> {
        self.known.as_ref().map(|(_, usage)| usage)
    }

    /// Forgets a figure whose hours have other events now; whether it did.
    pub(super) fn forget_unless(&mut self, hours: EventsVersion) -> bool {
        let has_changed = self.known.as_ref().is_some_and(|(then, _)| *then != hours);
        if has_changed {
            self.known = None;
        }
        has_changed
    }

    /// Remembers the figure, which was read in the same snapshot as the number of events.
    pub(super) fn keep(&self, hours: EventsVersion, usage: &Usage, figures: &UnchangedFigures) {
        if self.hours.is_some() && self.known.is_none() {
            figures.keep(&self.request, hours, usage);
        }
    }
}

/// The whole hours that a figure stands on; none where it is told by roll-ups, where those are not complete, and where the
/// period ends in the middle of a minute: that is now, which will not be asked for again.
fn hours_of(request: &UsageRequest, beginning: Option<OffsetDateTime>) -> Option<Period> {
    let reach = match &request.metric.measure {
        Measure::Counter(Aggregation::Unique { .. }) => Duration::ZERO,
        Measure::Rate(Rate { window, .. }) => longest(*window),
        Measure::Counter(_) | Measure::Gauge(_) | Measure::Custom(_) => return None,
    };
    let (start, end) = (request.period.start(), request.period.end());
    let is_whole_minute = |instant: OffsetDateTime| instant.second() == 0 && instant.nanosecond() == 0;
    if request.period.is_empty() || !is_whole_minute(start) || !is_whole_minute(end) {
        return None;
    }
    let hours = Period::new(floor(moved(start, -reach), HOUR), ceiling(end, HOUR)?).ok()?;
    beginning.filter(|from| *from <= hours.start()).map(|_| hours)
}

/// The longest that a window lasts: it reaches back from an event so far at most.
fn longest(window: Span) -> Duration {
    match window {
        Span::Second | Span::Minute | Span::Hour => Duration::HOUR,
        Span::Day => Duration::DAY,
        Span::Month => Duration::days(31),
        Span::Quarter => Duration::days(92),
        Span::Year => Duration::days(366),
    }
}
