//! Rates: the greatest that the events of a sliding window come to.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use super::Usage;
use crate::metric::Totals;
use crate::metric::{Measured, Rate};
use crate::period::Period;

/// The usage of `period`: one window ends at each event in it, and may begin before it. `events` are in order of time
/// and reach back to the first window's start.
pub(super) fn fold(rate: &Rate, period: &Period, events: &[(OffsetDateTime, Measured)]) -> Usage {
    let mut window = Totals::default();
    let (mut first, mut next) = (0, 0);
    let mut usage = Usage::zero();
    let mut greatest: Option<BigDecimal> = None;
    let windows = events.iter().enumerate().filter(|(_, (time, _))| period.contains(*time));
    for (end, (time, _)) in windows {
        usage.event_count += 1;
        let from = rate.window.before(*time);
        // Events of one instant are in one window.
        while next <= end || events.get(next).is_some_and(|(other, _)| other == time) {
            add(&mut window, &events[next].1);
            next += 1;
        }
        while events.get(first).is_some_and(|(other, _)| *other < from) {
            remove(&mut window, &events[first].1);
            first += 1;
        }
        if usage.event_count == 1 {
            // From the first window on the greatest only ever grows; what left before it was in no window.
            window.max = events[first..next].iter().filter_map(|(_, measured)| number(measured)).max().cloned();
        }
        greatest = greatest.max(Some(rate.aggregation.quantity(&window)));
    }
    usage.quantity = greatest.unwrap_or_default();
    usage
}

fn number(measured: &Measured) -> Option<&BigDecimal> {
    match measured {
        Measured::Number(number) => Some(number),
        Measured::Event | Measured::Text(_) => None,
    }
}

fn add(window: &mut Totals, measured: &Measured) {
    window.event_count += 1;
    if let Some(number) = number(measured) {
        window.sum += number;
        // Of all windows so far, which serves as well as that of this one.
        window.max = window.max.take().map(|max| max.max(number.clone()));
    }
}

fn remove(window: &mut Totals, measured: &Measured) {
    window.event_count -= 1;
    if let Some(number) = number(measured) {
        window.sum -= number;
    }
}
