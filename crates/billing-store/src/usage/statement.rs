//! What the one statement that reads usage of every kind is asked.

use billing_domain::Error;
use billing_domain::metric::{Aggregation, Gauge, GaugeEventType, Measure, Rate};
use billing_domain::period::{Period, Span, instant};
use billing_domain::usage::UsageRequest;
use time::OffsetDateTime;
use uuid::Uuid;

use super::totals::{ReadBuckets, ReadUsage};
use crate::pg::column::to_json;
use crate::rollup::{Source, dimensions_of, split};

/// How events are read.
#[derive(Clone, Copy)]
pub(super) enum Reading {
    /// Their totals.
    Totals,
    /// Bucket by bucket, each event's number a level.
    Levels(Option<Span>),
    /// Bucket by bucket, each event's number moving a level.
    Moves(Option<Span>),
    /// The window before an event that comes to most.
    Windows(Span),
}

impl Reading {
    fn as_str(self) -> &'static str {
        match self {
            Self::Totals => "totals",
            Self::Levels(_) => "levels",
            Self::Moves(_) => "moves",
            Self::Windows(_) => "windows",
        }
    }

    /// The bucket, as `date_trunc` names it.
    fn bucket(self) -> Option<&'static str> {
        let (Self::Levels(span) | Self::Moves(span)) = self else { return None };
        span.map(|span| match span {
            Span::Second => "second",
            Span::Minute => "minute",
            Span::Hour => "hour",
            Span::Day => "day",
            Span::Month => "month",
            Span::Quarter => "quarter",
            Span::Year => "year",
        })
    }

    /// The length of a window.
    fn window(self) -> Option<&'static str> {
        let Self::Windows(span) = self else { return None };
        Some(match span {
            Span::Second => "1 second",
            Span::Minute => "1 minute",
            Span::Hour => "1 hour",
            Span::Day => "1 day",
            Span::Month => "1 month",
            Span::Quarter => "3 months",
            Span::Year => "1 year",
        })
    }
}

impl ReadUsage {
    pub(super) fn new(organization: Uuid) -> Self {
        Self {
            bucket_requests: Vec::new(),
            bucket_customers: Vec::new(),
            bucket_metrics: Vec::new(),
            bucket_aggregations: Vec::new(),
            bucket_event_names: Vec::new(),
            bucket_dimensions: Vec::new(),
            bucket_hours: Vec::new(),
            bucket_starts: Vec::new(),
            bucket_ends: Vec::new(),
            event_requests: Vec::new(),
            event_readings: Vec::new(),
            event_customers: Vec::new(),
            event_names: Vec::new(),
            event_aggregations: Vec::new(),
            event_properties: Vec::new(),
            event_filters: Vec::new(),
            event_metric_filters: Vec::new(),
            event_starts: Vec::new(),
            event_ends: Vec::new(),
            event_spans: Vec::new(),
            event_windows: Vec::new(),
            organization,
            key_ranges: Vec::new(),
        }
    }

    /// Adds what the request needs. `beginning`: since when its roll-ups are complete.
    pub(super) fn add(
        &mut self,
        number: i32,
        request: &UsageRequest,
        beginning: Option<OffsetDateTime>,
    ) -> Result<(), Error> {
        match &request.metric.measure {
            Measure::Custom(_) => Ok(()),
            Measure::Counter(aggregation) => self.add_totals(number, request, aggregation, &request.period, beginning),
            Measure::Gauge(gauge) => {
                let Gauge { event_type, proration, .. } = gauge;
                let before = Period::new(instant::FIRST, request.period.start()).unwrap_or(request.period);
                self.add_totals(number, request, &gauge.level(), &before, beginning)?;
                let reading = match event_type {
                    GaugeEventType::Total => Reading::Levels(*proration),
                    GaugeEventType::Delta => Reading::Moves(*proration),
                };
                self.add_events(number, request, &gauge.level(), reading, &request.period)
            }
            Measure::Rate(Rate { aggregation, window }) => {
                self.add_events(number, request, aggregation, Reading::Windows(*window), &request.period)
            }
        }
    }

    /// Adds the events of whole hours in which roll-ups are complete.
    pub(super) fn add_hours(&mut self, number: i32, request: &UsageRequest, hours: &Period) {
        let aggregation = request.metric.measure.aggregation();
        for (source, part) in split(hours, Some(hours.start())) {
            if let Source::Buckets(hours) = source {
                self.add_buckets(number, request, &aggregation, hours, &part);
            }
        }
    }

    /// What `aggregation` needs of `period`, from roll-ups where there are any that tell it.
    fn add_totals(
        &mut self,
        number: i32,
        request: &UsageRequest,
        aggregation: &Aggregation,
        period: &Period,
        beginning: Option<OffsetDateTime>,
    ) -> Result<(), Error> {
        for (source, part) in split(period, beginning.filter(|_| aggregation.adds_up())) {
            match source {
                Source::Buckets(hours) => self.add_buckets(number, request, aggregation, hours, &part),
                Source::Events => self.add_events(number, request, aggregation, Reading::Totals, &part)?,
            }
        }
        Ok(())
    }

    pub(super) fn add_buckets(
        &mut self,
        number: i32,
        request: &UsageRequest,
        aggregation: &Aggregation,
        hours: i16,
        part: &Period,
    ) {
        self.bucket_requests.push(number);
        self.bucket_customers.push(request.customer.uuid());
        self.bucket_metrics.push(request.metric.id.uuid());
        self.bucket_aggregations.push(aggregation.as_str());
        self.bucket_event_names.push(request.metric.event_name.clone());
        self.bucket_dimensions.push(dimensions_of(&request.filters));
        self.bucket_hours.push(hours);
        self.bucket_starts.push(part.start());
        self.bucket_ends.push(part.end());
    }

    pub(super) fn add_events(
        &mut self,
        number: i32,
        request: &UsageRequest,
        aggregation: &Aggregation,
        reading: Reading,
        part: &Period,
    ) -> Result<(), Error> {
        let metric = &request.metric;
        self.event_requests.push(number);
        self.event_readings.push(reading.as_str());
        self.event_customers.push(request.customer.uuid());
        self.event_names.push(metric.event_name.clone());
        self.event_aggregations.push(aggregation.as_str());
        self.event_properties.push(aggregation.property_name().map(str::to_owned));
        let filters = &metric.filters;
        let filters = if filters.is_empty() { None } else { Some(to_json(filters)?.to_string()) };
        self.event_metric_filters.push(filters);
        self.event_filters.push((!request.filters.is_empty()).then(|| request.filters.canonical()));
        self.event_starts.push(part.start());
        self.event_ends.push(part.end());
        self.event_spans.push(reading.bucket());
        self.event_windows.push(reading.window());
        Ok(())
    }
}

/// Usage that is in whole buckets alone: what most invoices are about, since most periods begin and end on the hour.
impl From<ReadUsage> for ReadBuckets {
    fn from(all: ReadUsage) -> Self {
        Self {
            requests: all.bucket_requests,
            customers: all.bucket_customers,
            metrics: all.bucket_metrics,
            aggregations: all.bucket_aggregations,
            event_names: all.bucket_event_names,
            dimensions: all.bucket_dimensions,
            hours: all.bucket_hours,
            starts: all.bucket_starts,
            ends: all.bucket_ends,
            organization: all.organization,
            key_ranges: all.key_ranges,
        }
    }
}
