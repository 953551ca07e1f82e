//! Usage day by day, so that a period's cost or price can be told apart by days.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use time::{Date, OffsetDateTime};

use super::usages::usages;
use crate::error::Error;
use crate::id::CustomerKey;
use crate::metric::{Aggregation, Gauge, Measure, Metric};
use crate::period::{MICROSECOND, Period, Span};
use crate::store::Transaction;
use crate::subscription::SubscriptionFilters;
use crate::usage::{Usage, UsageRequest};

/// The usage of one metric over one period, to be told apart by days.
pub(super) struct DailyUsage {
    pub metric: Metric,
    pub filters: SubscriptionFilters,
    pub period: Period,
}

/// How the figures of days make the usage of the days.
#[derive(Clone, Copy)]
enum Daily {
    /// Each day has a usage of its own.
    Own,
    /// The figures run from the period's start: a day has what it adds.
    Running,
    /// What a day exceeds the days before it by.
    Record,
    /// The day with the greatest figure has all of it.
    Peak,
}

impl Daily {
    fn of(measure: &Measure) -> Self {
        match measure {
            // Of a query nothing is known but what it comes to up to each day.
            Measure::Counter(Aggregation::Unique { .. }) | Measure::Custom(_) => Self::Running,
            // A bucket of more than a day has one level for all of it: no day knows it by itself.
            Measure::Gauge(Gauge { proration: Some(span), .. }) if span.length().is_none() => Self::Running,
            Measure::Counter(Aggregation::Max { .. }) | Measure::Gauge(Gauge { proration: None, .. }) => Self::Record,
            Measure::Counter(_) | Measure::Gauge(_) => Self::Own,
            Measure::Rate(_) => Self::Peak,
        }
    }

    /// The usage of each day from its figure. Days without any are left out.
    fn split(self, measure: &Measure, figures: Vec<(Date, Usage)>) -> BTreeMap<Date, BigDecimal> {
        // A level is there without events; anything else is not.
        let always = matches!(measure, Measure::Gauge(_) | Measure::Custom(_));
        let figures = figures.into_iter().filter(|(_, usage)| always || usage.event_count > 0);
        if let Self::Peak = self {
            let mut greatest: Option<(Date, BigDecimal)> = None;
            for (date, Usage { quantity, .. }) in figures {
                if greatest.as_ref().is_none_or(|(_, other)| quantity > *other) {
                    greatest = Some((date, quantity));
                }
            }
            return greatest.into_iter().collect();
        }
        let mut before: Option<BigDecimal> = None;
        let of_day = |(date, Usage { quantity, .. })| {
            let reached = match (self, &before) {
                (Self::Own, _) => return (date, quantity),
                (Self::Record, Some(before)) => quantity.max(before.clone()),
                _ => quantity,
            };
            let added = &reached - before.clone().unwrap_or_default();
            before = Some(reached);
            (date, added)
        };
        figures.map(of_day).collect()
    }
}

/// The parts of `period` that lie in one UTC day each.
pub(super) fn days_of(period: &Period) -> Vec<(Date, Period)> {
    let (mut days, mut at) = (Vec::new(), period.start());
    while at < period.end() {
        let end = Span::Day.around(at).end().min(period.end());
        let Ok(day) = Period::new(at, end) else { break };
        if day.is_empty() {
            break;
        }
        days.push((at.date(), day));
        at = end;
    }
    days
}

/// The usage of each UTC day for each question, all from one snapshot. Levels are looked at up to `now`.
///
/// - A count, a sum, and a gauge with proration by a day or less have what the day by itself has.
/// - A maximum and a gauge without proration have what the day exceeds all days before it by.
/// - A unique count has the texts that came up first on that day.
/// - A gauge with proration by a month or more, and a query, have what the time up to the day's end comes to beyond the time up
///   to its start: a new peak of the bucket is of its day, with what it adds to the bucket's days before.
/// - A rate has all of it on the day of its peak.
///
/// These add up to the usage of their time. An average, a minimum and a latest number have no parts: each day has its own.
pub(super) fn daily_usages(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    questions: &[DailyUsage],
    now: OffsetDateTime,
) -> Result<Vec<BTreeMap<Date, BigDecimal>>, Error> {
    let (mut requests, mut dates) = (Vec::new(), Vec::new());
    for DailyUsage { metric, filters, period } in questions {
        let measure = &metric.measure;
        let known = if matches!(measure, Measure::Gauge(_)) { period.cut_at(now + MICROSECOND) } else { *period };
        let full = measure.full(period.start(), period);
        let days = days_of(&known);
        dates.push(days.iter().map(|(date, _)| *date).collect::<Vec<_>>());
        requests.extend(days.into_iter().map(|(_, day)| {
            let period = if let Daily::Running = Daily::of(measure) { known.cut_at(day.end()) } else { day };
            UsageRequest { customer, metric: metric.clone(), filters: filters.clone(), period, full }
        }));
    }
    let mut figures = usages(tx, &requests)?.into_iter();
    let split = |(question, dates): (&DailyUsage, Vec<Date>)| {
        let figures = dates.into_iter().zip(figures.by_ref()).collect();
        Daily::of(&question.metric.measure).split(&question.metric.measure, figures)
    };
    Ok(questions.iter().zip(dates).map(split).collect())
}
