use bigdecimal::BigDecimal;
use time::macros::datetime;
use time::{Date, Month, UtcOffset};

use super::*;
use crate::choice::{Choice, UnknownChoice};
use crate::decimal::plain;
use crate::decimal::tests::number_of;
use crate::money::round_half_away_from_zero;

fn at(text: &str) -> OffsetDateTime {
    let text = if text.len() == 10 { format!("{text}T00:00:00Z") } else { format!("{text}:00Z") };
    OffsetDateTime::parse(&text, &time::format_description::well_known::Rfc3339).expect("an instant")
}

fn period(start: &str, end: &str) -> Period {
    Period::new(at(start), at(end)).expect("start before end")
}

#[test]
fn periods_are_half_open() {
    let march = period("2026-03-01", "2026-04-01");
    let empty = period("2026-03-10", "2026-03-10");
    #[rustfmt::skip]
    let cases = [
        // other,                              overlaps, why
        (period("2026-02-01", "2026-03-01"),   false,    "it ends where March starts"),
        (period("2026-04-01", "2026-05-01"),   false,    "it starts where March ends"),
        (period("2026-02-01", "2026-03-01T00:01"), true, "a minute in common"),
        (period("2026-01-01", "2027-01-01"),   true,     "it contains March"),
        (period("2026-03-10", "2026-03-11"),   true,     "March contains it"),
        (empty,                                false,    "an empty period overlaps nothing"),
    ];
    for (other, overlaps, why) in cases {
        assert_eq!(march.overlaps(&other), overlaps, "{why}");
        assert_eq!(other.overlaps(&march), overlaps, "the other way round: {why}");
    }
    assert!(march.contains(march.start()) && march.contains(march.last_instant()) && !march.contains(march.end()));
    assert_eq!(march.last_instant(), datetime!(2026-03-31 23:59:59.999999 UTC));
    assert_eq!(empty.last_instant(), empty.start(), "an empty period shows its start");
    assert!(empty.is_empty() && !empty.contains(empty.start()));
    assert_eq!(empty.fraction_of(&march).of(&BigDecimal::from(30)), BigDecimal::from(0));
    assert_eq!(march.fraction_of(&empty), Fraction::ZERO, "a part of nothing is nothing");
}

#[test]
fn periods_are_cut_within_themselves() {
    let march = period("2026-03-01", "2026-04-01");
    #[rustfmt::skip]
    let cases = [
        // cut,            end,                  why
        ("2026-02-01",     "2026-03-01",         "before the start nothing is left"),
        ("2026-03-01",     "2026-03-01",         "nor at the start"),
        ("2026-03-11",     "2026-03-11",         "inside, what was before"),
        ("2026-05-01",     "2026-04-01",         "past the end, everything"),
    ];
    for (cut, end, why) in cases {
        assert_eq!(march.cut_at(at(cut)), period("2026-03-01", end), "{cut}: {why}");
    }
}

#[test]
fn instants_are_whole_microseconds_in_utc() {
    let precise = datetime!(2026-03-01 1:00:00.123456789 +1);
    let made = Period::new(precise, precise).expect("an empty period");
    assert_eq!(made.start(), datetime!(2026-03-01 0:00:00.123456 UTC));
    assert!(made.start().offset().is_utc());
    assert_eq!(Period::new(at("2026-03-02"), at("2026-03-01")), Err(PeriodError::EndBeforeStart));
    let far = datetime!(9999-12-31 23:00 -5);
    assert_eq!(instant::whole(far), instant::LAST, "past the last year there is only its end");
}

#[test]
fn json_writes_rfc_3339_and_checks_what_it_reads() {
    let march = Period::new(at("2026-03-01"), datetime!(2026-03-31 23:59:59.5 UTC)).expect("a period");
    let text = serde_json::to_string(&march).expect("json");
    assert_eq!(text, r#"{"start":"2026-03-01T00:00:00Z","end":"2026-03-31T23:59:59.5Z"}"#);
    assert_eq!(serde_json::from_str::<Period>(&text).expect("read back"), march);
    let backwards = r#"{"start":"2026-03-01T00:00:00Z","end":"2026-02-01T00:00:00Z"}"#;
    assert!(serde_json::from_str::<Period>(backwards).is_err());
    assert!(serde_json::from_str::<Interval>(r#"{"unit":"day","count":0}"#).is_err());
    let fraction = Fraction { numerator: 1, denominator: i128::MAX };
    let text = serde_json::to_string(&fraction).expect("json");
    assert_eq!(serde_json::from_str::<Fraction>(&text).expect("read back"), fraction);
}

#[test]
fn an_instant_can_be_absent_in_json() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Expiry(#[serde(with = "instant::optional")] Option<OffsetDateTime>);
    for (expiry, json) in [(Expiry(None), "null"), (Expiry(Some(at("2026-03-01"))), r#""2026-03-01T00:00:00Z""#)] {
        assert_eq!(serde_json::to_string(&expiry).expect("json"), json);
        assert_eq!(serde_json::from_str::<Expiry>(json).expect("read back"), expiry);
    }
}

#[test]
fn a_fraction_knows_the_whole() {
    assert!(Fraction::ONE.is_one() && Fraction { numerator: 7, denominator: 7 }.is_one());
    assert!(!Fraction::ZERO.is_one() && !Fraction { numerator: 6, denominator: 7 }.is_one());
    assert!(!Fraction { numerator: 0, denominator: 0 }.is_one(), "no time is no whole");
}

#[test]
fn words_are_read_as_they_are_written() {
    for &unit in IntervalUnit::ALL {
        assert_eq!((unit.as_str().parse(), unit.to_string().as_str()), (Ok(unit), unit.as_str()));
        assert_eq!(serde_json::to_value(unit).expect("json"), unit.as_str());
    }
    for &duration in PlanDuration::ALL {
        assert_eq!((duration.as_str().parse(), duration.to_string().as_str()), (Ok(duration), duration.as_str()));
        assert_eq!(serde_json::to_value(duration).expect("json"), duration.as_str());
    }
    assert_eq!("fortnight".parse::<IntervalUnit>(), Err(UnknownChoice { choices: IntervalUnit::TEXTS }));
    assert_eq!("Monthly".parse::<PlanDuration>(), Err(UnknownChoice { choices: PlanDuration::TEXTS }));
    assert_eq!(Anchors::new(Some(0), None), Err(AnchorError::Day));
    assert_eq!(Anchors::new(Some(31), Some(13)), Err(AnchorError::Month));
}

#[test]
fn first_periods_end_where_the_plan_says() {
    use PlanDuration::{Monthly, Quarterly, Yearly};
    #[rustfmt::skip]
    let cases = [
        // plan,     start,              day,      month,    end,                whole until,        why
        (Monthly,   "2023-01-01",       None,     None,     "2023-02-01",       "2023-02-01",       "a calendar month"),
        (Monthly,   "2023-01-15T13:30", None,     None,     "2023-02-15T13:30", "2023-02-15T13:30", "a full month from that instant"),
        (Monthly,   "2023-01-31",       None,     None,     "2023-02-28",       "2023-02-28",       "clamped to February"),
        (Monthly,   "2024-01-30",       None,     None,     "2024-02-29",       "2024-02-29",       "clamped to a leap February"),
        (Monthly,   "2023-01-15",       Some(1),  None,     "2023-02-01",       "2023-02-15",       "cut short at the first of the month"),
        (Monthly,   "2023-01-10",       Some(15), None,     "2023-01-15",       "2023-02-10",       "cut short to five days"),
        (Monthly,   "2023-01-31",       Some(31), None,     "2023-02-28",       "2023-02-28",       "already on the anchor"),
        (Monthly,   "2023-01-30",       Some(31), None,     "2023-01-31",       "2023-02-28",       "a day before the anchor"),
        (Monthly,   "2023-02-28",       Some(31), None,     "2023-03-31",       "2023-03-31",       "February's anchor is its last day: a whole period"),
        (Monthly,   "2023-02-28T13:30", Some(31), None,     "2023-03-31",       "2023-03-31",       "longer than to 28 March, still one whole"),
        (Monthly,   "2023-01-15T13:30", Some(1),  None,     "2023-02-01",       "2023-02-15T13:30", "anchors are midnights"),
        (Monthly,   "2023-01-15T13:30", None,     Some(6),  "2023-02-15T13:30", "2023-02-15T13:30", "a month anchor means nothing to months"),
        (Quarterly, "2023-01-15",       None,     None,     "2023-04-15",       "2023-04-15",       "three months"),
        (Quarterly, "2023-01-15",       Some(1),  None,     "2023-04-01",       "2023-04-15",       "the first of January has passed"),
        (Quarterly, "2023-01-10",       Some(15), None,     "2023-01-15",       "2023-04-10",       "the anchored day is still to come"),
        (Quarterly, "2023-02-15",       Some(1),  Some(1),  "2023-04-01",       "2023-05-15",       "quarters from January"),
        (Quarterly, "2023-05-15",       Some(1),  Some(1),  "2023-07-01",       "2023-08-15",       "the next of them"),
        (Quarterly, "2023-02-15",       None,     Some(1),  "2023-04-15",       "2023-05-15",       "quarters from January, on the start's day"),
        (Yearly,    "2023-01-15",       None,     None,     "2024-01-15",       "2024-01-15",       "a year"),
        (Yearly,    "2024-02-29",       None,     None,     "2025-02-28",       "2025-02-28",       "a leap day's year"),
        (Yearly,    "2023-01-15",       Some(1),  None,     "2024-01-01",       "2024-01-15",       "it has passed: the next is a year away"),
        (Yearly,    "2023-03-15",       Some(1),  Some(1),  "2024-01-01",       "2024-03-15",       "to the end of the calendar year"),
        (Yearly,    "2023-03-15",       Some(1),  Some(6),  "2023-06-01",       "2024-03-15",       "a year that begins in June"),
        (Yearly,    "2023-03-15",       None,     Some(6),  "2023-06-15",       "2024-03-15",       "the same, on the start's day"),
    ];
    for (duration, start, day, month, end, whole_end, why) in cases {
        let anchors = Anchors::new(day, month).expect("valid anchors");
        let tile = Cadence::new(at(start), duration, anchors).period(0);
        assert_eq!(tile.period, period(start, end), "{duration} from {start}: {why}");
        assert_eq!(tile.full, period(start, whole_end), "{duration} from {start}, whole: {why}");
    }
}

#[test]
fn later_periods_do_not_drift() {
    use PlanDuration::{Monthly, Yearly};
    #[rustfmt::skip]
    let cases = [
        // plan,    start,        day,      number, start of it,  end of it,    why
        (Monthly,  "2023-01-31", None,     1,      "2023-02-28", "2023-03-31", "back to the 31st after February"),
        (Monthly,  "2023-01-31", None,     2,      "2023-03-31", "2023-04-30", "and so on"),
        (Monthly,  "2023-01-31", None,     13,     "2024-02-29", "2024-03-31", "a leap February"),
        (Yearly,   "2024-02-29", None,     3,      "2027-02-28", "2028-02-29", "the leap day comes back"),
        (Monthly,  "2023-01-10", Some(31), 1,      "2023-01-31", "2023-02-28", "an anchor on the 31st"),
        (Monthly,  "2023-01-10", Some(31), 2,      "2023-02-28", "2023-03-31", "is one in every month"),
    ];
    for (duration, start, day, number, number_start, number_end, why) in cases {
        let anchors = Anchors::new(day, None).expect("valid anchors");
        let tile = Cadence::new(at(start), duration, anchors).period(number);
        assert_eq!(tile.period, period(number_start, number_end), "{start} {number}: {why}");
        assert_eq!(tile.full, tile.period, "only the first can be cut");
    }
}

#[test]
fn intervals_tile_a_subscription() {
    use IntervalUnit::{Day, Month, Week, Year};
    let february = period("2023-02-01", "2023-03-01");
    let march = period("2023-03-01", "2023-04-01");
    let year = period("2023-01-31", "2024-01-31");
    #[rustfmt::skip]
    let cases = [
        // unit, count, span,      tiles, last whole until, why
        (Day,    1,     february,  28,    "2023-03-01",     "a daily reset in February"),
        (Day,    1,     march,     31,    "2023-04-01",     "a daily reset in March"),
        (Week,   1,     february,  4,     "2023-03-01",     "a weekly reset fits February"),
        (Week,   1,     march,     5,     "2023-04-05",     "the fifth week of March is cut"),
        (Day,    2,     february,  14,    "2023-03-01",     "every two days"),
        (Month,  1,     year,      12,    "2024-01-31",     "monthly from the 31st"),
        (Month,  5,     year,      3,     "2024-04-30",     "five months do not divide a year"),
        (Year,   1,     year,      1,     "2024-01-31",     "one year"),
    ];
    for (unit, count, span, tiles, whole_end, why) in cases {
        let found = Interval::new(unit, count).expect("at least 1").tiles(span.start(), &span);
        assert_eq!(found.len(), tiles, "{count} {unit}: {why}");
        assert_eq!(found.last().map(|tile| tile.full.end()), Some(at(whole_end)), "{count} {unit}: {why}");
    }
    let weekly = Interval::new(Week, 1).expect("at least 1");
    assert!(weekly.tiles(march.start(), &march.cut_at(march.start())).is_empty(), "an empty span has no tiles");
    let middle = weekly.tiles(at("2023-03-01"), &period("2023-03-10", "2023-03-16"));
    let periods: Vec<Period> = middle.iter().map(|tile| tile.period).collect();
    assert_eq!(periods, [period("2023-03-10", "2023-03-15"), period("2023-03-15", "2023-03-16")]);
    assert_eq!(middle[0].full, period("2023-03-08", "2023-03-15"), "the full interval is counted from the anchor");
}

#[test]
fn calendars_end() {
    let yearly = Interval::new(IntervalUnit::Year, u32::MAX).expect("at least 1");
    assert_eq!(yearly.boundary(at("2023-01-01"), u32::MAX), instant::LAST);
    let last_days = Period::new(at("9999-12-01"), instant::LAST).expect("a period");
    assert_eq!(Interval::new(IntervalUnit::Month, 1).expect("1").tiles(at("9999-12-01"), &last_days).len(), 1);
    let duration = PlanDuration::Monthly;
    let cadence = Cadence::new(at("9999-12-15"), duration, Anchors::NONE);
    assert_eq!(cadence.period(0).period.end(), instant::LAST);
    assert!(cadence.period(1).period.is_empty() && cadence.period(u32::MAX).period.is_empty());
}

#[test]
fn proration_is_by_the_microsecond() {
    #[rustfmt::skip]
    let cases = [
        // amount, used,                                          full,                                            rounded, why
        ("30",     ("2023-01-15T13:30", "2023-02-15T13:30"),      ("2023-01-15T13:30", "2023-02-15T13:30"),        "30",    "a start with a time of day gets a full period"),
        ("30",     ("2023-01-01", "2023-02-01"),                  ("2023-01-01", "2023-02-01"),                    "30",    "a full month"),
        ("10",     ("2023-02-06", "2023-03-01"),                  ("2023-02-01", "2023-03-01"),                    "8.21",  "23 of 28 days"),
        ("10",     ("2023-01-06", "2023-02-01"),                  ("2023-01-01", "2023-02-01"),                    "8.39",  "26 of 31 days"),
        ("30",     ("2023-04-01", "2023-04-11"),                  ("2023-04-01", "2023-05-01"),                    "10",    "cancelled after a third"),
        ("30",     ("2023-04-01", "2023-04-01"),                  ("2023-04-01", "2023-05-01"),                    "0",     "cancelled at once"),
        ("30",     ("2023-01-15", "2023-02-01"),                  ("2023-01-15", "2023-02-15"),                    "16.45", "anchored: 17 of 31 days"),
    ];
    for (amount, used, full, rounded, why) in cases {
        let fraction = period(used.0, used.1).fraction_of(&period(full.0, full.1));
        let due = round_half_away_from_zero(&fraction.of(&number_of(amount)), 2);
        assert_eq!(plain(&due), rounded, "{why}");
    }
}

/// New York from 2007 on: forward on the second Sunday of March at 2, back on the first of November at 2.
pub(super) struct NewYork;

impl Zone for NewYork {
    fn offset_at(&self, instant: OffsetDateTime) -> UtcOffset {
        let sunday = |month: Month, nth: i64| {
            let first = Date::from_calendar_date(instant.year(), month, 1).expect("a date");
            let to_sunday = (7 - i64::from(first.weekday().number_days_from_sunday())) % 7;
            first + Duration::days(to_sunday + 7 * (nth - 1))
        };
        let forward = sunday(Month::March, 2).with_hms(7, 0, 0).expect("a time").assume_utc();
        let back = sunday(Month::November, 1).with_hms(6, 0, 0).expect("a time").assume_utc();
        let hours = if forward <= instant && instant < back { -4 } else { -5 };
        UtcOffset::from_hms(hours, 0, 0).expect("an offset")
    }
}

#[test]
fn local_times_are_found_where_clocks_change() {
    #[rustfmt::skip]
    let cases = [
        // local,              instant,                         why
        (datetime!(2025-01-15 12:00), datetime!(2025-01-15 17:00 UTC), "winter"),
        (datetime!(2025-07-15 12:00), datetime!(2025-07-15 16:00 UTC), "summer"),
        (datetime!(2025-03-09 01:59), datetime!(2025-03-09 06:59 UTC), "the last minute before clocks go forward"),
        (datetime!(2025-03-09 02:30), datetime!(2025-03-09 07:30 UTC), "missing: half an hour after the change"),
        (datetime!(2025-03-09 03:00), datetime!(2025-03-09 07:00 UTC), "the first after it"),
        (datetime!(2025-11-02 01:30), datetime!(2025-11-02 05:30 UTC), "shown twice: the first"),
        (datetime!(2025-11-02 02:00), datetime!(2025-11-02 07:00 UTC), "shown once again"),
    ];
    for (local, instant, why) in cases {
        assert_eq!(instant_at(&NewYork, local), instant, "{local}: {why}");
    }
    let repeated = datetime!(2025-11-02 06:30 UTC);
    assert_eq!(local_time(&NewYork, repeated), datetime!(2025-11-02 01:30), "the second showing reads the same");
}

/// UTC, counting how often it is asked.
#[derive(Default)]
struct Asked(std::cell::Cell<u32>);

impl Zone for Asked {
    fn offset_at(&self, _: OffsetDateTime) -> UtcOffset {
        self.0.set(self.0.get() + 1);
        UtcOffset::UTC
    }
}

#[test]
fn intervals_far_from_their_anchor_are_found_without_walking_there() {
    let anchor = datetime!(1950-03-15 18:00 UTC);
    let span = Period::new(datetime!(2050-07-04 9:00 UTC), datetime!(2050-07-06 9:00 UTC)).expect("a period");
    #[rustfmt::skip]
    let cases = [
        // unit,              count, first tile's start
        (IntervalUnit::Day,   1,     datetime!(2050-07-03 18:00 UTC)),
        (IntervalUnit::Day,   7,     datetime!(2050-06-29 18:00 UTC)),
        (IntervalUnit::Week,  1,     datetime!(2050-06-29 18:00 UTC)),
        (IntervalUnit::Week,  2,     datetime!(2050-06-22 18:00 UTC)),
        (IntervalUnit::Month, 1,     datetime!(2050-06-15 18:00 UTC)),
        (IntervalUnit::Month, 5,     datetime!(2050-03-15 18:00 UTC)),
        (IntervalUnit::Year,  1,     datetime!(2050-03-15 18:00 UTC)),
        (IntervalUnit::Year,  3,     datetime!(2049-03-15 18:00 UTC)),
    ];
    for (unit, count, first) in cases {
        let (interval, zone) = (Interval { unit, count }, Asked::default());
        let tiles = interval.tiles_in(&zone, anchor, &span);
        assert_eq!(tiles[0].full.start(), first, "{interval:?}");
        assert_eq!((tiles[0].period.start(), tiles[tiles.len() - 1].period.end()), (span.start(), span.end()));
        // Each boundary takes a handful of questions, and a few boundaries are all that is needed.
        assert!(zone.0.get() < 40, "{interval:?}: asked {} times", zone.0.get());
    }
    let on_boundary = Period::new(datetime!(2050-07-03 18:00 UTC), span.end()).expect("a period");
    let daily = Interval { unit: IntervalUnit::Day, count: 1 };
    assert_eq!(daily.tiles(anchor, &on_boundary)[0].period.start(), on_boundary.start());
    let empty = Period::at(span.start());
    assert_eq!(daily.tiles(anchor, &empty), []);
}
