//! Periods, anchors, fractions, zones.

use billing_domain::BigDecimal;
use billing_domain::decimal::plain;
use billing_domain::money::round_half_away_from_zero;
use billing_domain::period::{
    Anchors, Cadence, Interval, IntervalUnit, Period, PlanDuration, Zone, instant_at, local_time,
};
use serde_json::Value;
use time::{Date, Duration, Month, OffsetDateTime, Time, UtcOffset};

use crate::made;
use crate::vector::{Outcome, Vector, instant, number, shown, shown_date};

/// The zones that vectors name, by the rules their clocks follow in the years they name.
struct Named(&'static str);

impl Named {
    fn of(vector: &Vector) -> Self {
        const NAMES: [&str; 8] = [
            "UTC",
            "HST",
            "Asia/Kolkata",
            "Asia/Tokyo",
            "America/New_York",
            "America/Los_Angeles",
            "Europe/Paris",
            "Australia/Sydney",
        ];
        let name = vector.inputs["timezone"].as_str().unwrap_or("UTC");
        Self(NAMES.into_iter().find(|known| *known == name).unwrap_or_else(|| panic!("{name} is not known here")))
    }
}

/// The `nth` Sunday of a month, counted from its end when it is 0, at an hour of UTC.
fn sunday(year: i32, month: Month, nth: i64, utc_hour: i64) -> OffsetDateTime {
    let first = Date::from_calendar_date(year, month, 1).expect("a date");
    let from = if nth == 0 { first + Duration::days(i64::from(month.length(year)) - 7) } else { first };
    let to_sunday = (7 - i64::from(from.weekday().number_days_from_sunday())) % 7;
    let date = from + Duration::days(to_sunday + 7 * (nth - 1).max(0));
    date.midnight().assume_utc() + Duration::hours(utc_hour)
}

impl Zone for Named {
    fn offset_at(&self, instant: OffsetDateTime) -> UtcOffset {
        let year = instant.year();
        let american = |standard: i64| {
            let forward = sunday(year, Month::March, 2, 2 - standard);
            let back = sunday(year, Month::November, 1, 1 - standard);
            standard + i64::from(forward <= instant && instant < back)
        };
        let minutes = 60
            * match self.0 {
                "HST" => -10,
                "Asia/Tokyo" => 9,
                "America/New_York" => american(-5),
                "America/Los_Angeles" => american(-8),
                "Europe/Paris" => {
                    let forward = sunday(year, Month::March, 0, 1);
                    1 + i64::from(forward <= instant && instant < sunday(year, Month::October, 0, 1))
                }
                "Australia/Sydney" => {
                    let back = sunday(year, Month::April, 1, -8);
                    11 - i64::from(back <= instant && instant < sunday(year, Month::October, 1, -8))
                }
                _ => 0,
            };
        let minutes = if self.0 == "Asia/Kolkata" { 330 } else { minutes };
        UtcOffset::from_whole_seconds(i32::try_from(minutes * 60).expect("a small offset")).expect("an offset")
    }
}

/// One unit and how many of it a period has.
fn period_of(vector: &Vector) -> (IntervalUnit, u32) {
    match vector.text("period") {
        "weekly" => (IntervalUnit::Week, 1),
        "monthly" => (IntervalUnit::Month, 1),
        "quarterly" => (IntervalUnit::Month, 3),
        "annual" | "yearly" => (IntervalUnit::Year, 1),
        "30 days" => (IntervalUnit::Day, 30),
        other => panic!("{other} is not a period"),
    }
}

fn interval(vector: &Vector) -> Interval {
    let (unit, count) = period_of(vector);
    Interval::new(unit, count).expect("at least 1")
}

fn duration(vector: &Vector) -> PlanDuration {
    match vector.text("period") {
        "annual" => PlanDuration::Yearly,
        other => other.parse().expect("a plan duration"),
    }
}

/// Local midnight of the first day of the year before, or of a Monday then: calendar periods count from there.
fn calendar_anchor(zone: &dyn Zone, near: OffsetDateTime, weekly: bool) -> OffsetDateTime {
    let year = local_time(zone, near).year() - 1;
    let first = Date::from_calendar_date(year, Month::January, 1).expect("a date");
    let to_monday = if weekly { (7 - i64::from(first.weekday().number_days_from_monday())) % 7 } else { 0 };
    instant_at(zone, (first + Duration::days(to_monday)).midnight())
}

fn anchor(vector: &Vector, near: OffsetDateTime) -> OffsetDateTime {
    match vector.text("anchor") {
        "calendar" => calendar_anchor(&Named::of(vector), near, vector.text("period") == "weekly"),
        anchor => instant(anchor),
    }
}

/// The whole interval around `target`.
fn around(interval: Interval, zone: &dyn Zone, anchor: OffsetDateTime, target: OffsetDateTime) -> Period {
    let moment = Period::new(target, target + Duration::MICROSECOND).expect("a period");
    interval.tiles_in(zone, anchor, &moment)[0].full
}

/// Where an invoice's period lies: in advance it begins at the billing instant, in arrears it has ended by it.
pub fn period_billed_at(vector: &Vector) -> Outcome {
    let zone = Named::of(vector);
    let billing_at = vector.instant("billing_at");
    let anchor = match vector.text("alignment") {
        "calendar" => calendar_anchor(&zone, vector.instant("subscription_at"), vector.text("period") == "weekly"),
        _ => vector.instant("subscription_at"),
    };
    let mut period = around(interval(vector), &zone, anchor, billing_at);
    if !vector.inputs["in_advance"].as_bool().expect("true or false") {
        period = around(interval(vector), &zone, anchor, period.start() - Duration::MICROSECOND);
    }
    let last_second = period.last_instant().replace_nanosecond(0).expect("a whole second");
    made! { "from": shown(period.start()), "to_inclusive": shown(last_second) }
}

/// One-unit steps from the anchor, advanced by as many as a period has: nothing drifts.
pub fn next_billing_date(vector: &Vector) -> Outcome {
    let zone = Named::of(vector);
    let start = vector.instant("current_period_start");
    let anchor = anchor(vector, start);
    let (unit, count) = period_of(vector);
    let next = if vector.text("anchor") == "calendar" {
        around(interval(vector), &zone, anchor, start).end()
    } else {
        let step = Interval::new(unit, 1).expect("at least 1");
        let reached = around(step, &zone, anchor, start).start();
        let steps = (0..).find(|n| step.boundary_in(&zone, anchor, *n) == reached).expect("a boundary");
        step.boundary_in(&zone, anchor, steps + count * vector.count("count"))
    };
    let end = vector.has("subscription_end").then(|| vector.instant("subscription_end"));
    made! { "next": shown(end.map_or(next, |end| end.min(next))) }
}

pub fn periods_until(vector: &Vector) -> Outcome {
    let span = Period::new(vector.instant("start"), vector.instant("end")).expect("a period");
    let tiles = interval(vector).tiles_in(&Named::of(vector), anchor(vector, span.start()), &span);
    made! { "period_ends": tiles.iter().map(|tile| shown(tile.period.end())).collect::<Vec<_>>() }
}

pub fn period_containing(vector: &Vector) -> Outcome {
    let target = vector.instant("target");
    let period = around(interval(vector), &Named::of(vector), anchor(vector, target), target);
    made! { "from": shown(period.start()), "to_exclusive": shown(period.end()) }
}

fn cadence(vector: &Vector, start: &str) -> Cadence {
    let day = u8::try_from(vector.count("billing_day")).expect("a day");
    let anchors = Anchors::new(Some(day), None).expect("a day of a month");
    Cadence::new(vector.instant(start), duration(vector), anchors)
}

fn number_at(cadence: &Cadence, target: OffsetDateTime) -> u32 {
    (0..).find(|number| cadence.period(*number).period.end() > target).expect("periods never end")
}

pub fn period_containing_date(vector: &Vector) -> Outcome {
    let cadence = cadence(vector, "billing_start");
    let period = cadence.period(number_at(&cadence, vector.instant("target"))).period;
    made! { "from": shown_date(period.start().date()), "to_exclusive": shown_date(period.end().date()) }
}

pub fn elapsed_cycles(vector: &Vector) -> Outcome {
    made! { "cycles": number_at(&cadence(vector, "billing_start"), vector.instant("target")) }
}

pub fn whole_periods(vector: &Vector) -> Outcome {
    made! { "periods": number_at(&cadence(vector, "start"), vector.instant("target")) + 1 }
}

pub fn next_usage_reset(vector: &Vector) -> Outcome {
    let now = vector.instant("now");
    let reset = around(interval(vector), &Named::of(vector), anchor(vector, now), now).end();
    let end = vector.has("subscription_end").then(|| vector.instant("subscription_end"));
    made! { "reset_at": shown(end.map_or(reset, |end| end.min(reset))) }
}

pub fn first_billing_cycle_date(vector: &Vector) -> Outcome {
    let day = u8::try_from(vector.count("billing_day")).expect("a day");
    let anchors = Anchors::new(Some(day), None).expect("a day of a month");
    let first = |duration| {
        let cadence = Cadence::new(vector.instant("start"), duration, anchors);
        shown_date(cadence.period(0).period.end().date())
    };
    made! { "monthly": first(PlanDuration::Monthly), "annual": first(PlanDuration::Yearly) }
}

pub fn next_billing_day(vector: &Vector) -> Outcome {
    made! { "date": shown_date(cadence(vector, "date").period(0).period.end().date()) }
}

pub fn whole_periods_between(vector: &Vector) -> Outcome {
    let span = Period::new(vector.instant("start"), vector.instant("end")).expect("a period");
    let tiles = interval(vector).tiles(span.start(), &span);
    made! { "periods": tiles.iter().filter(|tile| tile.period == tile.full).count() }
}

pub fn advance(vector: &Vector) -> Outcome {
    let date = interval(vector).boundary(vector.instant("start"), vector.count("count")).date();
    made! { "date": shown_date(date) }
}

pub fn first_period(vector: &Vector) -> Outcome {
    let tile = cadence(vector, "start").period(0);
    let fraction = tile.period.fraction_of(&tile.full).of(&1.into());
    let period = vec![shown_date(tile.period.start().date()), shown_date(tile.period.end().date())];
    made! { "period": period, "fraction": plain(&fraction) }
}

/// Periods billed in advance by `target`, each by its part of a whole one; the subscription's end cuts the last.
pub fn billed_cycles_in_advance(vector: &Vector) -> Outcome {
    let cadence = cadence(vector, "start");
    let target = vector.instant("target");
    let end = vector.has("end").then(|| vector.instant("end"));
    let (mut cycles, mut number) = (BigDecimal::from(0), 0);
    loop {
        let tile = cadence.period(number);
        if tile.period.start() > target {
            break;
        }
        let period = end.map_or(tile.period, |end| tile.period.cut_at(end));
        cycles += period.fraction_of(&tile.full).of(&1.into());
        number += 1;
    }
    made! { "cycles": plain(&cycles) }
}

fn days(list: &Value) -> Period {
    let at = |index: usize| instant(list[index].as_str().expect("a date"));
    Period::new(at(0), at(1)).expect("a period")
}

/// Not to prorate is a whole fraction; a part longer than the whole is the whole here.
pub fn fraction(vector: &Vector) -> Outcome {
    let full = days(&vector.inputs["full"]);
    let partial = days(&vector.inputs["partial"]);
    let used = full
        .intersection(&partial)
        .map_or(full.cut_at(full.start()).fraction_of(&full), |used| used.fraction_of(&full));
    if used.is_one() {
        return made! { "fraction": Value::Null };
    }
    made! { "fraction": plain(&used.of(&1.into())) }
}

pub fn fraction_leading(vector: &Vector) -> Outcome {
    let period = Period::new(vector.instant("start"), vector.instant("next_billing_date")).expect("a period");
    let full = Period::new(period.start(), interval(vector).boundary(period.start(), 1)).expect("a period");
    made! { "fraction": plain(&round_half_away_from_zero(&period.fraction_of(&full).of(&1.into()), 9)) }
}

/// Each period counts by itself, so months of any length are whole.
pub fn fraction_trailing(vector: &Vector) -> Outcome {
    let span = Period::new(vector.instant("from_"), vector.instant("to")).expect("a period");
    let tiles = interval(vector).tiles(span.start(), &span);
    let parts: BigDecimal = tiles.iter().map(|tile| tile.period.fraction_of(&tile.full).of(&1.into())).sum();
    made! { "fraction": plain(&parts) }
}

pub fn terminate_in_arrears(vector: &Vector) -> Outcome {
    let anchors = Anchors::new(Some(1), Some(1)).expect("anchors");
    let cadence = Cadence::new(vector.instant("started"), duration(vector), anchors);
    let tile = cadence.period(0);
    let used = tile.period.cut_at(vector.instant("terminated")).fraction_of(&tile.full);
    made! { "amount": plain(&round_half_away_from_zero(&used.of(&vector.number("amount")), 2)) }
}

pub fn local_days_between(vector: &Vector) -> Outcome {
    let zone = Named::of(vector);
    let date = |key| local_time(&zone, vector.instant(key)).date();
    made! { "days": (date("end") - date("start")).whole_days() }
}

pub fn billing_day_of(vector: &Vector) -> Outcome {
    made! { "billing_day": local_time(&Named::of(vector), vector.instant("start")).day() }
}

pub fn billing_day_over_dst(vector: &Vector) -> Outcome {
    let zone = Named::of(vector);
    let daily = Interval::new(IntervalUnit::Day, 1).expect("at least 1");
    let end = daily.boundary_in(&zone, vector.instant("start"), vector.count("trial_days"));
    made! { "billing_day": local_time(&zone, end).day() }
}

/// One event of 100 at ten o'clock of every local day.
pub fn daily_windows(vector: &Vector) -> Outcome {
    let zone = Named::of(vector);
    let span = Period::new(vector.instant("from"), vector.instant("to")).expect("a period");
    let tiles = Interval::new(IntervalUnit::Day, 1).expect("at least 1").tiles_in(&zone, span.start(), &span);
    let ten = Time::from_hms(10, 0, 0).expect("a time");
    let events: Vec<OffsetDateTime> = (6..=12)
        .map(|day| instant_at(&zone, Date::from_calendar_date(2025, Month::March, day).expect("a date").with_time(ten)))
        .collect();
    let value = |period: &Period| 100 * events.iter().filter(|event| period.contains(**event)).count();
    let values: Vec<usize> = tiles.iter().map(|tile| value(&tile.period)).collect();
    assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "every window has the same value");
    let contiguous = tiles.windows(2).all(|pair| pair[0].period.end() == pair[1].period.start());
    made! {
        "windows": tiles.len(),
        "value_each": values[0].to_string(),
        "window_at_index_3": vec![shown(tiles[3].period.start()), shown(tiles[3].period.end())],
        "contiguous": contiguous,
    }
}

pub fn usage_by_local_month(vector: &Vector) -> Outcome {
    let zone = Named::of(vector);
    let events: Vec<OffsetDateTime> =
        vector.list("events").iter().map(|event| instant(event.as_str().expect("an instant"))).collect();
    let each = number(&vector.inputs["quantity_each"]);
    let month = |month: Month| {
        let at = |month: Month| instant_at(&zone, Date::from_calendar_date(2023, month, 1).expect("a date").midnight());
        let period = around(Interval::new(IntervalUnit::Month, 1).expect("1"), &zone, at(Month::January), at(month));
        let inside = events.iter().filter(|event| period.contains(**event)).count();
        plain(&(&each * BigDecimal::from(inside as u64)))
    };
    made! { "2023-03": month(Month::March), "2023-04": month(Month::April), "2023-05": month(Month::May) }
}
