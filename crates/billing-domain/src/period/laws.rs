//! What holds for every period, interval and cadence from 1900 to 2100.

use bigdecimal::BigDecimal;
use proptest::prelude::*;
use time::macros::datetime;
use time::util::days_in_month;
use time::{Date, Time};

use super::tests::NewYork;
use super::*;
use crate::decimal::tests::{any_number, laws};
use crate::money::round_half_away_from_zero;

fn any_instant() -> impl Strategy<Value = OffsetDateTime> {
    // 1900 to 2100, midnights as often as other times.
    let from = datetime!(1900-01-01 0:00 UTC).unix_timestamp();
    let to = datetime!(2100-01-01 0:00 UTC).unix_timestamp();
    let microseconds = prop_oneof![Just(0_i64), 0..1_000_000_i64];
    (from..to, microseconds, any::<bool>()).prop_map(|(seconds, microseconds, midnight)| {
        let instant = OffsetDateTime::from_unix_timestamp(seconds).expect("in range");
        let instant = instant + Duration::microseconds(microseconds);
        if midnight { instant.date().midnight().assume_utc() } else { instant }
    })
}

fn any_interval() -> impl Strategy<Value = Interval> {
    let unit = prop::sample::select(IntervalUnit::ALL.to_vec());
    (unit, 1..40_u32).prop_map(|(unit, count)| Interval { unit, count })
}

fn any_cadence() -> impl Strategy<Value = Cadence> {
    let anchors =
        (prop::option::of(1..=31_u8), prop::option::of(1..=12_u8)).prop_map(|(day, month)| Anchors { day, month });
    (any_instant(), prop::sample::select(PlanDuration::ALL.to_vec()), anchors)
        .prop_map(|(start, duration, anchors)| Cadence::new(start, duration, anchors))
}

fn month_from(start: OffsetDateTime) -> Period {
    Period::from_whole(start, PlanDuration::Monthly.interval().boundary(start, 1))
}

fn clamped_day(date: Date, day: u8) -> u8 {
    day.min(days_in_month(date.month(), date.year()))
}

proptest! {
    #![proptest_config(laws())]

    #[test]
    fn subscription_periods_tile_without_gap_overlap_or_drift(cadence in any_cadence(), number in 0..800_u32) {
        let (first, tile, next) = (cadence.period(0), cadence.period(number), cadence.period(number + 1));
        prop_assert_eq!(first.period.start(), cadence.start);
        prop_assert_eq!(tile.period.end(), next.period.start());
        prop_assert!(!tile.period.is_empty());
        prop_assert!(tile.full.start() == tile.period.start() && tile.full.end() >= tile.period.end());
        prop_assert_eq!(next.full, next.period);
        // Each boundary is on the anchored day, or the start's, as far as its month has it.
        let boundary = next.period.start();
        let monthly_month_anchor = cadence.duration == PlanDuration::Monthly && cadence.anchors.day.is_none();
        let anchored = cadence.anchors != Anchors::NONE && !(monthly_month_anchor);
        let day = cadence.anchors.day.unwrap_or(cadence.start.day());
        prop_assert_eq!(boundary.day(), clamped_day(boundary.date(), day));
        prop_assert_eq!(boundary.time(), if anchored { Time::MIDNIGHT } else { cadence.start.time() });
    }

    #[test]
    fn a_month_anchor_names_the_month(cadence in any_cadence(), number in 1..200_u32) {
        let step = match cadence.duration {
            PlanDuration::Monthly => return Ok(()),
            PlanDuration::Quarterly => 3,
            PlanDuration::Yearly => 12,
        };
        if let Some(month) = cadence.anchors.month {
            let start = cadence.period(number).period.start();
            prop_assert_eq!(u8::from(start.month()) % step, month % step);
        }
    }

    #[test]
    fn intervals_cover_a_span_exactly_once(
        interval in any_interval(),
        anchor in any_instant(),
        offset_minutes in 0..3_000_000_i64,
        length_minutes in 0..200_000_i64,
    ) {
        let start = anchor + Duration::minutes(offset_minutes);
        let span = Period::new(start, start + Duration::minutes(length_minutes)).expect("a period");
        let tiles = interval.tiles(anchor, &span);
        let mut reached = span.start();
        for tile in &tiles {
            prop_assert_eq!(tile.period.start(), reached);
            prop_assert_eq!(tile.full.intersection(&span), Some(tile.period));
            reached = tile.period.end();
        }
        prop_assert_eq!(reached, span.end());
        prop_assert_eq!(tiles.is_empty(), span.is_empty());
    }

    #[test]
    fn local_intervals_cover_a_span_exactly_once(
        interval in any_interval(),
        anchor in any_instant(),
        offset_minutes in 0..3_000_000_i64,
        length_minutes in 0..200_000_i64,
    ) {
        let start = anchor + Duration::minutes(offset_minutes);
        let span = Period::new(start, start + Duration::minutes(length_minutes)).expect("a period");
        let mut reached = span.start();
        for tile in interval.tiles_in(&NewYork, anchor, &span) {
            prop_assert_eq!(tile.period.start(), reached);
            reached = tile.period.end();
        }
        prop_assert_eq!(reached, span.end());
    }

    #[test]
    fn clocks_and_instants_agree(instant in any_instant()) {
        let back = instant_at(&NewYork, local_time(&NewYork, instant));
        // Only within the hour that shows twice another instant, one hour earlier, shows the same.
        prop_assert!(back == instant || instant - back == Duration::HOUR);
        prop_assert_eq!(local_time(&NewYork, back), local_time(&NewYork, instant));
    }

    #[test]
    fn parts_of_a_split_period_sum_to_the_whole(
        start in any_instant(),
        cuts in prop::collection::vec(0..2_678_400_000_000_i64, 0..12),
        amount in any_number(),
    ) {
        let full = month_from(start);
        let mut instants: Vec<_> = cuts.iter().map(|cut| start + Duration::microseconds(*cut)).collect();
        instants.push(full.end());
        instants.sort_unstable();
        let (mut rest, mut numerators, mut sum) = (full, 0, BigDecimal::from(0));
        for instant in instants {
            let part = rest.cut_at(instant);
            numerators += part.fraction_of(&full).numerator;
            sum += part.fraction_of(&full).of(&amount);
            rest = Period::from_whole(part.end(), full.end());
        }
        prop_assert_eq!(numerators, full.microseconds());
        prop_assert_eq!(round_half_away_from_zero(&sum, 15), amount);
    }

    #[test]
    fn used_and_unused_parts_are_the_whole(start in any_instant(), used in 0..3_000_000_i64, amount in any_number()) {
        let full = month_from(start);
        let used = full.cut_at(start + Duration::seconds(used));
        let unused = Period::from_whole(used.end(), full.end());
        let sum = used.fraction_of(&full).of(&amount) + unused.fraction_of(&full).of(&amount);
        prop_assert_eq!(round_half_away_from_zero(&sum, 15), amount);
    }

    #[test]
    fn an_intersection_is_inside_both(a in any_instant(), b in any_instant(), c in any_instant(), d in any_instant()) {
        let left = Period::from_whole(a.min(b), a.max(b));
        let right = Period::from_whole(c.min(d), c.max(d));
        prop_assert_eq!(left.intersection(&right), right.intersection(&left));
        match left.intersection(&right) {
            Some(both) => {
                prop_assert!(!both.is_empty() && left.contains(both.start()) && right.contains(both.last_instant()));
                prop_assert_eq!(both.intersection(&left), Some(both));
            }
            None => prop_assert!(left.is_empty() || right.is_empty() || left.end() <= right.start() || right.end() <= left.start()),
        }
    }
}
