use billing_domain::decimal::plain;
use billing_domain::money::round_half_away_from_zero;
use billing_domain::period::{Anchors, Cadence, Interval, Period};

use super::{instant, number, table};

const CADENCES: &str = "| plan | start | day | month | first period ends | whole until | second ends |";
const INTERVALS: &str = "| interval | from | to | how many | last one whole until |";
const PRORATION: &str = "| prorated amount | used from | used to | full from | full to | USD |";
pub const TABLES: [&str; 3] = [CADENCES, INTERVALS, PRORATION];

#[test]
fn periods_end_where_the_plan_says() {
    for row in table(CADENCES) {
        let anchor = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a day or month"));
        let anchors = Anchors::new(anchor(&row[2]), anchor(&row[3])).expect("anchors");
        let duration = row[0].parse().expect("a plan duration");
        let cadence = Cadence::new(instant(&row[1]), duration, anchors);
        let ends = [cadence.period(0).period.end(), cadence.period(0).full.end(), cadence.period(1).period.end()];
        assert_eq!(ends, [instant(&row[4]), instant(&row[5]), instant(&row[6])], "{row:?}");
        assert_eq!(cadence.period(1).period.start(), ends[0], "{row:?}");
    }
}

#[test]
fn intervals_cover_a_subscription() {
    for row in table(INTERVALS) {
        let (count, unit) = row[0].split_once(' ').expect("count and unit");
        let interval =
            Interval::new(unit.parse().expect("a unit"), count.parse().expect("a count")).expect("at least 1");
        let span = Period::new(instant(&row[1]), instant(&row[2])).expect("a period");
        let tiles = interval.tiles(span.start(), &span);
        assert_eq!(tiles.len().to_string(), row[3], "{row:?}");
        assert_eq!(tiles.last().map(|tile| tile.full.end()), Some(instant(&row[4])), "{row:?}");
    }
}

#[test]
fn amounts_are_prorated_by_the_microsecond() {
    for row in table(PRORATION) {
        let period = |from: usize| Period::new(instant(&row[from]), instant(&row[from + 1])).expect("a period");
        let due = period(1).fraction_of(&period(3)).of(&number(&row[0]));
        assert_eq!(plain(&round_half_away_from_zero(&due, 2)), row[5], "{row:?}");
    }
}
