//! Measures usage window by window.

use time::{Date, Duration, OffsetDateTime, PrimitiveDateTime, Time};

use crate::customer::{Customer, CustomerId};
use crate::error::{Error, FieldCode, FieldError};
use crate::id::{CustomerKey, MetricId};
use crate::metric::{Measure, Metric};
use crate::period::{MICROSECOND, Period, Zone, instant_at, local_time};
use crate::store::Transaction;
use crate::subscription::SubscriptionFilters;
use crate::timezone;
use crate::usage::{Usage, UsageRequest};

/// Most windows in one answer.
pub const WINDOWS_MAX: usize = 1_000;

/// Most windows of a custom metric, each of which runs its query once.
pub const CUSTOM_WINDOWS_MAX: usize = 31;

/// The question.
#[derive(Clone, Debug)]
pub struct MeasureUsage {
    /// Of what.
    pub metric: MetricId,
    /// Whose, and of which time.
    pub span: UsageSpan,
}

/// Whose usage of which time, and how that is divided.
#[derive(Clone, Debug)]
pub struct UsageSpan {
    /// Whose usage.
    pub customer: CustomerId,
    /// Only events that have all of these properties count.
    pub filters: SubscriptionFilters,
    /// The first instant.
    pub start: Moment,
    /// The first instant after it; `None`: the customer's now, which is inside.
    pub end: Option<Moment>,
    /// What the time is divided into; `None`: it stays whole.
    pub window: Option<UsageWindow>,
    /// In which zone windows and days begin; `None`: in the customer's.
    pub timezone: Option<String>,
}

/// An instant, or a day in a zone that is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// An instant.
    Instant(OffsetDateTime),
    /// When the day begins.
    Midnight(Date),
}

choices! {
    /// What time is divided into.
    pub UsageWindow {
        /// From one full hour on the clock to the next.
        Hour = "hour",
        /// From midnight to midnight.
        Day = "day",
        /// From the first of a month to the first of the next.
        Month = "month",
    }
}

impl UsageWindow {
    /// The first boundary after `instant`.
    fn next(self, zone: &dyn Zone, instant: OffsetDateTime) -> Option<OffsetDateTime> {
        let local = local_time(zone, instant);
        let midnight = |date: Date| instant_at(zone, date.midnight());
        let next = match self {
            // Counted in time that passes: the clock may jump on the way.
            Self::Hour => {
                let past = local.time() - Time::from_hms(local.hour(), 0, 0).unwrap_or(Time::MIDNIGHT);
                instant.checked_add(Duration::HOUR - past)?
            }
            Self::Day => midnight(local.date().next_day()?),
            Self::Month => midnight(first_of_next_month(local)?),
        };
        // A zone may skip a whole day at its date line: the boundary after that.
        if next > instant { Some(next) } else { instant.checked_add(Duration::HOUR) }
    }
}

fn first_of_next_month(local: PrimitiveDateTime) -> Option<Date> {
    let (year, month) = (local.year(), local.month());
    let year = if month == time::Month::December { year.checked_add(1)? } else { year };
    Date::from_calendar_date(year, month.next(), 1).ok()
}

/// The answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MeasuredUsage {
    /// Whose.
    pub customer: Customer,
    /// Of what.
    pub metric: Metric,
    /// The zone that windows begin in.
    pub timezone: String,
    /// The whole time.
    pub total: (Period, Usage),
    /// The same, divided; the first and the last may be cut short. Without an end, a window that now begins is left out
    /// while no event is in it.
    pub windows: Vec<(Period, Usage)>,
}

/// Measures the usage of a time and of each window in it, all from one snapshot. `zone` knows the zones.
///
/// # Errors
/// `customer_id` or `metric_id` does not exist; an unknown `timezone`; an `end` before the start; more than
/// [`WINDOWS_MAX`] windows.
pub fn measure_usage<Z: Zone>(
    tx: &mut dyn Transaction,
    command: &MeasureUsage,
    zone: impl Fn(&str) -> Option<Z>,
) -> Result<MeasuredUsage, Error> {
    let customer = find_customer(tx, &command.span)?;
    let metric = tx.metrics().get(command.metric).map_err(|error| error.at_field("metric_id"))?;
    measure(tx, (customer, metric), &command.span, Duration::MAX, zone)
}

/// Whose usage is asked for.
pub(super) fn find_customer(tx: &mut dyn Transaction, span: &UsageSpan) -> Result<Customer, Error> {
    let key = CustomerKey::derive(tx.organization(), &span.customer);
    tx.customers().get(key).map_err(|error| error.at_field("customer_id"))
}

/// The usage of a metric, whether it was made or not, over at most so long.
pub(super) fn measure<Z: Zone>(
    tx: &mut dyn Transaction,
    (customer, metric): (Customer, Metric),
    span: &UsageSpan,
    longest: Duration,
    zone: impl Fn(&str) -> Option<Z>,
) -> Result<MeasuredUsage, Error> {
    let key = customer.key;
    let name = span.timezone.clone().unwrap_or_else(|| customer.timezone.clone());
    let zone =
        zone(&name).ok_or_else(|| FieldError::new("timezone", FieldCode::InvalidChoice, timezone::unknown(&name)))?;
    let at = |moment: Moment| match moment {
        Moment::Instant(instant) => instant,
        Moment::Midnight(date) => instant_at(&zone, date.midnight()),
    };
    let start = at(span.start);
    let now = tx.customers().now(key)? + MICROSECOND;
    let end = span.end.map_or_else(|| now.max(start), at);
    let whole = Period::new(start, end)
        .map_err(|_| FieldError::new("end", FieldCode::MinValue, "The end is before the start."))?;
    if whole.end() - whole.start() > longest {
        let detail = format!("At most {} days are looked at.", longest.whole_days());
        return Err(FieldError::new("end", FieldCode::MaxValue, detail).into());
    }
    let periods = divide(whole, span.window, &zone)?;

    let full = metric.measure.full(whole.start(), &whole);
    let request = |period: &Period| UsageRequest {
        customer: key,
        metric: metric.clone(),
        filters: span.filters.clone(),
        // Nobody has used a level in the time to come.
        period: if matches!(metric.measure, Measure::Gauge(_)) { period.cut_at(now) } else { *period },
        full,
    };
    if matches!(metric.measure, Measure::Custom(_)) && periods.len() > CUSTOM_WINDOWS_MAX {
        let detail = format!("Of a custom metric at most {CUSTOM_WINDOWS_MAX} windows are measured at once.");
        return Err(FieldError::new("end", FieldCode::MaxValue, detail).into());
    }
    let requests: Vec<_> = std::iter::once(&whole).chain(&periods).map(request).collect();
    let mut usages = super::usages::usages(tx, &requests)?.into_iter();
    let total = (whole, usages.next().unwrap_or_else(Usage::zero));
    let mut windows: Vec<_> = periods.into_iter().zip(usages).collect();
    if span.end.is_none() {
        leave_out_now(&mut windows);
    }
    Ok(MeasuredUsage { customer, metric, timezone: name, total, windows })
}

/// When now is the first instant of a window, that window holds nothing but this instant: it is left out until something
/// happens in it.
fn leave_out_now(windows: &mut Vec<(Period, Usage)>) {
    let is_now =
        |(period, usage): &mut (Period, Usage)| period.end() - period.start() == MICROSECOND && usage.event_count == 0;
    if windows.len() > 1 {
        windows.pop_if(is_now);
    }
}

fn divide(whole: Period, window: Option<UsageWindow>, zone: &dyn Zone) -> Result<Vec<Period>, Error> {
    let Some(window) = window else { return Ok(vec![whole]) };
    let (mut periods, mut start) = (Vec::new(), whole.start());
    while start < whole.end() {
        if periods.len() == WINDOWS_MAX {
            let detail = format!("These are more than {WINDOWS_MAX} windows; ask for a part of them.");
            return Err(FieldError::new("end", FieldCode::MaxValue, detail).into());
        }
        let end = window.next(zone, start).unwrap_or(whole.end()).min(whole.end());
        periods.push(Period::new(start, end).unwrap_or(whole));
        start = end;
    }
    Ok(periods)
}

#[cfg(test)]
mod tests {
    use time::UtcOffset;
    use time::macros::{datetime, offset};

    use super::*;

    /// Clocks go forward on 10 March at 10:00 UTC and back on 3 November at 09:00 UTC.
    struct Pacific;
    impl Zone for Pacific {
        fn offset_at(&self, instant: OffsetDateTime) -> UtcOffset {
            let summer = datetime!(2024-03-10 10:00 UTC)..datetime!(2024-11-03 9:00 UTC);
            if summer.contains(&instant) { offset!(-7) } else { offset!(-8) }
        }
    }

    /// `1.5` for an hour and a half.
    fn half_hours(span: Duration) -> String {
        format!("{}{}", span.whole_hours(), if span.whole_minutes() % 60 == 30 { ".5" } else { "" })
    }

    fn hours(start: OffsetDateTime, end: OffsetDateTime, window: UsageWindow, zone: &dyn Zone) -> Vec<String> {
        let whole = Period::new(start, end).expect("a period");
        let periods = divide(whole, Some(window), zone).expect("windows");
        assert!(periods.iter().zip(periods.iter().skip(1)).all(|(a, b)| a.end() == b.start()), "no gap");
        assert_eq!(periods.iter().map(|period| period.end() - period.start()).sum::<Duration>(), end - start);
        periods.iter().map(|period| half_hours(period.end() - period.start())).collect()
    }

    #[test]
    fn windows_follow_the_clocks_of_the_zone() {
        use UsageWindow::{Day, Hour, Month};
        let utc = UtcOffset::UTC;
        let zones: [(&str, &dyn Zone); 3] = [("pacific", &Pacific), ("india", &offset!(+5:30)), ("utc", &utc)];
        #[rustfmt::skip]
        let cases = [
            // zone,     start,                            end,                              window, hours,                      why
            ("pacific",  datetime!(2024-03-09 0:00 -8),    datetime!(2024-03-12 0:00 -7),    Day,    vec!["24", "23", "24"],     "a day of 23 hours"),
            ("pacific",  datetime!(2024-11-02 0:00 -7),    datetime!(2024-11-05 0:00 -8),    Day,    vec!["24", "25", "24"],     "a day of 25 hours"),
            ("pacific",  datetime!(2024-03-01 0:00 -8),    datetime!(2024-05-01 0:00 -7),    Month,  vec!["743", "720"],         "a month less an hour"),
            ("pacific",  datetime!(2024-12-01 0:00 -8),    datetime!(2025-02-01 0:00 -8),    Month,  vec!["744", "744"],         "over the year"),
            ("pacific",  datetime!(2024-11-03 7:30 UTC),   datetime!(2024-11-03 10:00 UTC),  Hour,   vec!["0.5", "1", "1"],      "an hour that comes twice"),
            ("india",    datetime!(2024-03-01 0:00 UTC),   datetime!(2024-03-01 2:00 UTC),   Hour,   vec!["0.5", "1", "0.5"],    "full hours are half hours in UTC"),
            ("india",    datetime!(2024-03-01 0:00 UTC),   datetime!(2024-03-02 0:00 UTC),   Day,    vec!["18.5", "5.5"],        "midnight is in the evening"),
            ("utc",      datetime!(2024-02-28 12:00 UTC),  datetime!(2024-03-01 6:00 UTC),   Day,    vec!["12", "24", "6"],      "cut short at both ends"),
            ("utc",      datetime!(2024-02-28 12:00 UTC),  datetime!(2024-02-28 12:00 UTC),  Day,    vec![],                     "nothing has no windows"),
        ];
        for (name, start, end, window, expected, why) in cases {
            let (_, zone) = zones.iter().find(|(known, _)| *known == name).expect("a zone");
            assert_eq!(hours(start, end, window, *zone), expected, "{name} {window:?}: {why}");
        }
    }

    #[test]
    fn there_is_an_end_to_windows() {
        let start = datetime!(2024-01-01 0:00 UTC);
        let of = |hours| Period::new(start, start + Duration::hours(hours)).expect("a period");
        assert_eq!(divide(of(1_000), Some(UsageWindow::Hour), &UtcOffset::UTC).map(|all| all.len()), Ok(1_000));
        assert!(divide(of(1_001), Some(UsageWindow::Hour), &UtcOffset::UTC).is_err());
        assert_eq!(divide(of(1_001), None, &UtcOffset::UTC), Ok(vec![of(1_001)]));
    }
}
