//! Intervals by local clocks, around every change of the clocks of every zone in the IANA database, 1970 to 2037.
//! What a local time means is asked of `jiff`, which has an implementation of its own.

use std::collections::BTreeSet;
use std::ops::Range;

use billing_domain::period::{Interval, IntervalUnit, Period, Zone, instant_at, local_time};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, tz};
use time::{Date, Duration, Month, OffsetDateTime, PrimitiveDateTime, Time, UtcOffset};

/// Every length that a day had or will have in those years, in minutes. 23, 24 and 25 hours are all that most zones know;
/// stations in Antarctica have moved by seven hours, and small changes have been everywhere.
const DAYS_MINUTES: [i64; 15] =
    [1_020, 1_260, 1_320, 1_350, 1_380, 1_395, 1_400, 1_410, 1_425, 1_440, 1_470, 1_500, 1_560, 1_620, 1_860];

/// A zone of the IANA database.
struct Iana(TimeZone);

impl Zone for Iana {
    fn offset_at(&self, instant: OffsetDateTime) -> UtcOffset {
        let timestamp = Timestamp::from_second(instant.unix_timestamp()).expect("a year that jiff knows");
        offset(self.0.to_offset(timestamp).seconds())
    }
}

impl Iana {
    /// When clocks in the zone show `local`, by jiff's own arithmetic.
    fn instant_of(&self, local: DateTime) -> OffsetDateTime {
        let timestamp = self.0.to_ambiguous_timestamp(local).compatible().expect("in range");
        OffsetDateTime::from_unix_timestamp_nanos(timestamp.as_nanosecond()).expect("in range")
    }
}

fn offset(seconds: i32) -> UtcOffset {
    UtcOffset::from_whole_seconds(seconds).expect("less than a day or so")
}

fn at(timestamp: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(timestamp.as_second()).expect("in range")
}

/// A change of the clocks: when, and the seconds they were and are ahead of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    at: Timestamp,
    before: i32,
    after: i32,
}

impl Change {
    /// By how much a day gets shorter.
    fn forward(&self) -> Duration {
        Duration::seconds(i64::from(self.after - self.before))
    }

    /// What clocks show the moment before, had they gone on.
    fn local(&self) -> DateTime {
        tz::Offset::from_seconds(self.before).expect("an offset").to_datetime(self.at)
    }
}

/// Every zone that differs from the others in the years 1970 to 2037, under one of its names, with its changes.
fn zones() -> Vec<(String, Iana, Vec<Change>)> {
    let year =
        |year: i16| DateTime::constant(year, 1, 1, 0, 0, 0, 0).to_zoned(TimeZone::UTC).expect("a date").timestamp();
    let span = year(1970)..year(2038);
    let mut seen = BTreeSet::new();
    let mut zones = Vec::new();
    let mut names = 0;
    for name in tz::db().available() {
        names += 1;
        let zone = TimeZone::get(name.as_str()).expect("a zone of the database");
        let changes = changes(&zone, &span);
        if seen.insert((zone.to_offset(span.start).seconds(), changes.clone())) {
            zones.push((name.to_string(), Iana(zone), changes));
        }
    }
    assert!(names > 590, "the whole database is here: {names} names");
    zones
}

fn changes(zone: &TimeZone, span: &Range<Timestamp>) -> Vec<Change> {
    let mut before = zone.to_offset(span.start).seconds();
    let mut changes = Vec::new();
    for transition in zone.following(span.start).take_while(|transition| transition.timestamp() < span.end) {
        let after = transition.offset().seconds();
        if after != before {
            changes.push(Change { at: transition.timestamp(), before, after });
        }
        before = after;
    }
    changes
}

fn primitive(local: DateTime) -> PrimitiveDateTime {
    let small = |number: i8| u8::try_from(number).expect("not negative");
    let month = Month::try_from(small(local.month())).expect("a month");
    let date = Date::from_calendar_date(local.year().into(), month, small(local.day())).expect("a date");
    let time = Time::from_hms(small(local.hour()), small(local.minute()), small(local.second())).expect("a time");
    PrimitiveDateTime::new(date, time)
}

/// The times of day that matter at a change: midnight, the moment it happens, and within what is missing or shown twice.
fn times_of_day(change: &Change) -> [DateTime; 4] {
    let local = change.local();
    let day = |at: DateTime| at.date();
    [day(local).at(0, 0, 0, 0), local, local.saturating_add(29.minutes()), local.saturating_sub(31.minutes())]
}

/// Tiles of `zone` from `anchor` over `span`: they are what jiff says and cover the span exactly once.
fn check_tiles(
    zone: &Iana,
    interval: Interval,
    anchor: DateTime,
    steps: i64,
    why: &dyn std::fmt::Debug,
) -> Vec<Duration> {
    let boundary = |n: i64| {
        let unit = match interval.unit {
            IntervalUnit::Day => n.days(),
            IntervalUnit::Week => n.weeks(),
            IntervalUnit::Month => n.months(),
            IntervalUnit::Year => n.years(),
        };
        zone.instant_of(anchor.checked_add(unit).expect("in range"))
    };
    let start = boundary(0);
    if local_time(zone, start) != primitive(anchor) {
        return Vec::new(); // The anchor is in what the clocks skipped: it is another time of day.
    }
    let span = Period::new(start, boundary(steps)).expect("time goes on");
    let tiles = interval.tiles_in(zone, start, &span);
    let mut expected: Vec<OffsetDateTime> = (0..=steps).map(boundary).collect();
    expected.dedup(); // A day that a zone skipped altogether is no day.
    let mut found: Vec<OffsetDateTime> = tiles.iter().map(|tile| tile.period.start()).collect();
    found.push(tiles.last().map_or(start, |tile| tile.period.end()));
    assert_eq!(found, expected, "{why:?}, {interval:?} from {anchor}");
    for pair in tiles.windows(2) {
        assert_eq!(pair[0].period.end(), pair[1].period.start(), "{why:?}");
    }
    assert!(tiles.iter().all(|tile| tile.full == tile.period && !tile.period.is_empty()), "{why:?}");
    tiles.iter().map(|tile| tile.period.end() - tile.period.start()).collect()
}

#[test]
fn days_around_every_change_of_clocks_cover_time_exactly_once() {
    let daily = Interval::new(IntervalUnit::Day, 1).expect("an interval");
    let (mut checked, mut lengths) = (0, BTreeSet::new());
    for (name, zone, changes) in zones() {
        for change in changes {
            let why = (&name, change);
            for local in times_of_day(&change) {
                let days = check_tiles(&zone, daily, local.saturating_sub(2.days()), 5, &why);
                let all: Duration = days.iter().sum();
                assert_eq!(all, Duration::days(5) - change.forward(), "{why:?}: {days:?}");
                let odd = days.iter().filter(|length| **length != Duration::DAY).count();
                assert!(odd <= 2, "{why:?}: {days:?}");
                lengths.extend(days.iter().map(|length| length.whole_minutes()));
                checked += 1;
            }
        }
    }
    assert!(checked > 40_000, "{checked} times of day at changes");
    assert_eq!(lengths, BTreeSet::from(DAYS_MINUTES));
}

/// Spans that begin anywhere, so that their first tile is cut.
#[test]
fn spans_that_begin_at_a_change_are_covered_exactly_once() {
    for (name, zone, changes) in zones() {
        for change in changes {
            let midnight = change.local().date().at(0, 0, 0, 0).saturating_sub(3.days());
            let anchor = zone.instant_of(midnight);
            for (unit, count) in [(IntervalUnit::Day, 1), (IntervalUnit::Week, 1)] {
                let interval = Interval::new(unit, count).expect("an interval");
                for minutes in [-90, 0, 30, 59] {
                    let start = at(change.at) + Duration::minutes(minutes);
                    let span = Period::new(start, start + Duration::days(3)).expect("time goes on");
                    let mut reached = span.start();
                    for tile in interval.tiles_in(&zone, anchor, &span) {
                        let why = (&name, change, interval, minutes);
                        assert_eq!(tile.period.start(), reached, "{why:?}");
                        assert_eq!(tile.full.intersection(&span), Some(tile.period), "{why:?}");
                        reached = tile.period.end();
                    }
                    assert_eq!(reached, span.end(), "{name}, {change:?}, {interval:?}, {minutes} minutes");
                }
            }
        }
    }
}

#[test]
fn weeks_months_and_years_that_end_at_a_change_cover_time_exactly_once() {
    for (name, zone, changes) in zones() {
        for change in changes.iter().step_by(3) {
            let why = (&name, change);
            for local in times_of_day(change).into_iter().take(2) {
                for (unit, anchor) in [
                    (IntervalUnit::Week, local.saturating_sub(1.weeks())),
                    (IntervalUnit::Month, local.saturating_sub(1.months())),
                    (IntervalUnit::Year, local.saturating_sub(1.years())),
                ] {
                    check_tiles(&zone, Interval::new(unit, 1).expect("an interval"), anchor, 2, &why);
                }
            }
        }
    }
}

#[test]
fn clocks_and_instants_agree_around_every_change() {
    for (name, zone, changes) in zones() {
        for change in changes {
            for minutes in [-1_441, -61, -30, -1, 0, 1, 30, 59, 61, 1_441] {
                let instant = at(change.at) + Duration::minutes(minutes);
                let local = local_time(&zone, instant);
                let back = instant_at(&zone, local);
                assert_eq!(local_time(&zone, back), local, "{name}, {change:?}: {minutes} minutes");
                // What the clocks show twice means the first time.
                assert!(back <= instant, "{name}, {change:?}: {minutes} minutes");
            }
        }
    }
}

#[test]
fn a_day_that_a_zone_skipped_is_no_day() {
    // Samoa went from Thursday 29 December 2011 to Saturday the 31st.
    let zone = Iana(TimeZone::get("Pacific/Apia").expect("a zone"));
    let daily = Interval::new(IntervalUnit::Day, 1).expect("an interval");
    let days = check_tiles(&zone, daily, DateTime::constant(2011, 12, 28, 0, 0, 0, 0), 6, &"Samoa");
    assert_eq!(days, [Duration::DAY; 5], "28, 29, 31 December, 1 and 2 January");
}
