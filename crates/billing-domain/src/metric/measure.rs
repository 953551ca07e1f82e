//! The ways in which events become a quantity, and the fields that say which.

use super::{Aggregation, AggregationKind, Granularity};
use crate::custom_sql::CustomSql;
use crate::error::{FieldCode, FieldError, FieldErrors};
use crate::event::Event;
use crate::metric::Measured;
use crate::period::{Period, Span};

/// How a metric's events become a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The events of a period, aggregated.
    Counter(Aggregation),
    /// A level that events set or move, and that stays until the next one.
    Gauge(Gauge),
    /// The greatest that the events of a sliding window come to.
    Rate(Rate),
    /// Whatever a query of the organization's own makes of all the customer's events, of any name. It is asked for by
    /// [`EventRepo::custom_usages`](crate::store::EventRepo::custom_usages), and may fail.
    Custom(CustomSql),
}

/// A level: seats that are taken, gigabytes that are stored. It outlives periods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// The property that says the level, or how it moves.
    pub property_name: String,
    /// Which of the two.
    pub event_type: GaugeEventType,
    /// What one priced unit is per, such as one seat per month; `None`: the plan's duration.
    pub granularity: Option<Span>,
    /// The buckets whose peaks are weighed; `None`: the peak of the whole period counts.
    pub proration: Option<Span>,
}

choices! {
    /// What the property of a gauge's event is.
    pub GaugeEventType {
        /// The new level.
        Total = "total",
        /// By how much the level moves. Before the first event it is 0.
        Delta = "delta",
    }
}

/// How much there is at once: calls a minute, at the busiest minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// What the events of one window come to: a count, a sum, an average or a maximum.
    pub aggregation: Aggregation,
    /// How long a window is. One ends at every event, and holds what is dated up to so much earlier, both ends included.
    pub window: Span,
}

choices! {
    /// The kinds of [`Measure`].
    #[derive(Default)]
    pub MetricType {
        /// [`Measure::Counter`].
        #[default]
        Counter = "counter",
        /// [`Measure::Gauge`].
        Gauge = "gauge",
        /// [`Measure::Rate`].
        Rate = "rate",
        /// [`Measure::Custom`].
        Custom = "custom",
    }
}

choices! {
    /// How what was measured over the parts of a period, such as the windows of a rate, comes to the quantity that is
    /// billed. A type has exactly one way: [`MetricType::billable_aggregation`].
    pub BillableAggregation {
        /// It adds up.
        Sum = "sum",
        /// The greatest counts.
        Max = "max",
    }
}

impl MetricType {
    /// How what was measured over the parts of a period comes to the quantity that is billed.
    pub fn billable_aggregation(self) -> BillableAggregation {
        match self {
            Self::Rate => BillableAggregation::Max,
            Self::Counter | Self::Gauge | Self::Custom => BillableAggregation::Sum,
        }
    }
}

impl From<Aggregation> for Measure {
    fn from(aggregation: Aggregation) -> Self {
        Self::Counter(aggregation)
    }
}

impl Measure {
    /// Its kind.
    pub fn metric_type(&self) -> MetricType {
        match self {
            Self::Counter(_) => MetricType::Counter,
            Self::Gauge(_) => MetricType::Gauge,
            Self::Rate(_) => MetricType::Rate,
            Self::Custom(_) => MetricType::Custom,
        }
    }

    /// The aggregation whose totals over a span of time say something about the measure: all that a counter is, where
    /// a gauge stands at the end, what one window of a rate comes to. Roll-ups keep these.
    pub fn aggregation(&self) -> Aggregation {
        match self {
            Self::Counter(aggregation) | Self::Rate(Rate { aggregation, .. }) => aggregation.clone(),
            Self::Gauge(gauge) => gauge.level(),
            // Nothing adds up: no roll-up is ever kept.
            Self::Custom(_) => Aggregation::Count,
        }
    }

    /// What one event brings; none if its property cannot be used.
    pub fn measured(&self, event: &Event) -> Option<Measured> {
        self.aggregation().measured(event)
    }

    /// Whether one more event makes the usage of a period 1 greater at most, and never less.
    pub fn rises_by_one(&self) -> bool {
        matches!(self, Self::Counter(Aggregation::Count | Aggregation::Unique { .. }))
    }

    /// What one priced unit of usage since `start` is for. `total` is the uncut period of the plan.
    pub fn full(&self, start: time::OffsetDateTime, total: &Period) -> Period {
        match self {
            Self::Gauge(Gauge { granularity: Some(span), .. }) => {
                Period::new(start, span.after(start)).unwrap_or(Period::at(start))
            }
            Self::Gauge(_) | Self::Counter(_) | Self::Rate(_) | Self::Custom(_) => *total,
        }
    }

    /// The fields that say it.
    pub fn fields(&self) -> MeasureFields {
        let plain = MeasureFields { metric_type: self.metric_type(), ..MeasureFields::default() };
        match self {
            Self::Counter(aggregation) => MeasureFields {
                aggregation_type: Some(aggregation.kind()),
                property_name: aggregation.property_name().map(str::to_owned),
                ..plain
            },
            Self::Gauge(gauge) => MeasureFields {
                aggregation_type: Some(AggregationKind::Max),
                property_name: Some(gauge.property_name.clone()),
                event_type: Some(gauge.event_type),
                granularity: Some(gauge.granularity.into()),
                proration: Some(gauge.proration.into()),
                ..plain
            },
            Self::Rate(rate) => MeasureFields {
                aggregation_type: Some(rate.aggregation.kind()),
                property_name: rate.aggregation.property_name().map(str::to_owned),
                granularity: Some(Some(rate.window).into()),
                ..plain
            },
            Self::Custom(sql) => MeasureFields { custom_sql: Some(sql.text().to_owned()), ..plain },
        }
    }
}

impl Gauge {
    /// The aggregation of all events up to an instant that is the level there.
    pub fn level(&self) -> Aggregation {
        let property_name = self.property_name.clone();
        match self.event_type {
            GaugeEventType::Total => Aggregation::Latest { property_name },
            GaugeEventType::Delta => Aggregation::Sum { property_name },
        }
    }
}

/// A [`Measure`] as separate fields: how it is sent, kept and shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasureFields {
    /// Which kind of measure.
    pub metric_type: MetricType,
    /// What it makes of events, or of those in one window. `None`: a count; the maximum for a gauge.
    pub aggregation_type: Option<AggregationKind>,
    /// The event property that it looks at; a count looks at none.
    pub property_name: Option<String>,
    /// What the property of a gauge's event is.
    pub event_type: Option<GaugeEventType>,
    /// What one unit of a gauge is per, or the window of a rate.
    pub granularity: Option<Granularity>,
    /// The buckets that a gauge is weighed by; `None`: not at all.
    pub proration: Option<Granularity>,
    /// The query of a custom metric.
    pub custom_sql: Option<String>,
}

impl MeasureFields {
    /// The measure that the fields say.
    ///
    /// # Errors
    /// Every field that is missing or does not go with the others.
    pub fn measure(self) -> Result<Measure, FieldErrors> {
        if self.metric_type != MetricType::Custom && self.custom_sql.as_ref().is_some_and(|sql| !sql.is_empty()) {
            return Err(FieldErrors(vec![FieldError::new(
                "custom_sql",
                FieldCode::InvalidChoice,
                "Only a metric of type custom has custom_sql; leave it out.",
            )]));
        }
        match self.metric_type {
            MetricType::Counter => self.counter(),
            MetricType::Gauge => self.gauge(),
            MetricType::Rate => self.rate(),
            MetricType::Custom => self.custom(),
        }
    }

    fn counter(self) -> Result<Measure, FieldErrors> {
        let mut errors = FieldErrors::default();
        self.refuse_event_type(&mut errors);
        // Of a counter these only ever mean the whole period.
        for (attr, value) in [("granularity", self.granularity), ("proration", self.proration)] {
            if value.is_some_and(|value| value != Granularity::Total) {
                errors.push(attr, FieldCode::InvalidChoice, format!("A counter has no {attr}; leave it out."));
            }
        }
        let aggregation = self.aggregate(AggregationKind::ALL, &mut errors);
        errors.finish(Measure::Counter(aggregation))
    }

    fn gauge(self) -> Result<Measure, FieldErrors> {
        let mut errors = FieldErrors::default();
        if self.aggregation_type.is_some_and(|kind| kind != AggregationKind::Max) {
            errors.push("aggregation_type", FieldCode::InvalidChoice, "A gauge has an aggregation_type of max.");
        }
        let named = |name: &String| !name.is_empty();
        if !self.property_name.as_ref().is_some_and(named) {
            errors.push("property_name", FieldCode::Required, "A gauge needs a property.");
        }
        if self.event_type.is_none() {
            errors.push("event_type", FieldCode::Required, "A gauge needs an event_type: total or delta.");
        }
        if self.granularity.is_none() {
            errors.push("granularity", FieldCode::Required, "A gauge needs a granularity: what one unit is per.");
        }
        let granularity = self.granularity.and_then(Granularity::span);
        let proration = self.proration.and_then(Granularity::span);
        if granularity.is_some_and(|whole| proration.is_some_and(|part| part > whole)) {
            let detail = "The proration may not be longer than the granularity.";
            errors.push("proration", FieldCode::InvalidChoice, detail);
        }
        let gauge = Gauge {
            property_name: self.property_name.unwrap_or_default(),
            event_type: self.event_type.unwrap_or(GaugeEventType::Total),
            granularity,
            // A part that is the whole is no part.
            proration: proration.filter(|part| Some(*part) != granularity),
        };
        errors.finish(Measure::Gauge(gauge))
    }

    fn rate(self) -> Result<Measure, FieldErrors> {
        use AggregationKind::{Average, Count, Max, Sum};
        let mut errors = FieldErrors::default();
        self.refuse_event_type(&mut errors);
        if self.proration.is_some_and(|value| value != Granularity::Total) {
            errors.push("proration", FieldCode::InvalidChoice, "Only a gauge has a proration; leave it out.");
        }
        let window = self.granularity.and_then(Granularity::span);
        match (self.granularity, window) {
            (_, Some(_)) => {}
            (None, None) => errors.push("granularity", FieldCode::Required, "A rate needs a granularity: its window."),
            (Some(_), None) => {
                errors.push("granularity", FieldCode::InvalidChoice, "The window of a rate is not a plan's duration.");
            }
        }
        let aggregation = self.aggregate(&[Count, Sum, Average, Max], &mut errors);
        errors.finish(Measure::Rate(Rate { aggregation, window: window.unwrap_or(Span::Second) }))
    }

    fn custom(self) -> Result<Measure, FieldErrors> {
        let mut errors = FieldErrors::default();
        self.refuse_event_type(&mut errors);
        let others = [
            ("aggregation_type", self.aggregation_type.is_some_and(|kind| kind != AggregationKind::Count)),
            ("property_name", self.property_name.is_some_and(|name| !name.is_empty())),
            ("granularity", self.granularity.is_some_and(|value| value != Granularity::Total)),
            ("proration", self.proration.is_some_and(|value| value != Granularity::Total)),
        ];
        for (attr, is_there) in others {
            if is_there {
                errors.push(attr, FieldCode::InvalidChoice, format!("A custom metric has no {attr}; leave it out."));
            }
        }
        let sql = match self.custom_sql.filter(|sql| !sql.is_empty()) {
            None => Err(FieldError::new("custom_sql", FieldCode::Required, "A custom metric needs custom_sql.")),
            Some(text) => CustomSql::parse(&text)
                .map_err(|error| FieldError::new("custom_sql", FieldCode::CustomSqlNotAllowed, error.to_string())),
        };
        let sql = errors.keep("", sql);
        match sql {
            Some(sql) => errors.finish(Measure::Custom(sql)),
            None => Err(errors),
        }
    }

    fn refuse_event_type(&self, errors: &mut FieldErrors) {
        if self.event_type.is_some() {
            errors.push("event_type", FieldCode::InvalidChoice, "Only a gauge has an event_type; leave it out.");
        }
    }

    /// The aggregation, if it is one of `allowed` and has the property it needs, and no other.
    fn aggregate(&self, allowed: &[AggregationKind], errors: &mut FieldErrors) -> Aggregation {
        let kind = self.aggregation_type.unwrap_or(AggregationKind::Count);
        if !allowed.contains(&kind) {
            let allowed: Vec<&str> = allowed.iter().map(|kind| kind.as_str()).collect();
            let detail = format!("The aggregation_type of a rate is one of {}.", allowed.join(", "));
            errors.push("aggregation_type", FieldCode::InvalidChoice, detail);
        }
        let property_name = self.property_name.clone().filter(|name| !name.is_empty());
        // Most likely what is to be made of the property was forgotten: a count would bill something else.
        if kind == AggregationKind::Count && property_name.is_some() {
            let detail = "A count looks at no property; leave property_name out, or say what is made of it.";
            errors.push("property_name", FieldCode::InvalidChoice, detail);
        }
        kind.of(property_name).unwrap_or_else(|| {
            let detail = format!("An aggregation_type of {} needs a property.", kind.as_str());
            errors.push("property_name", FieldCode::Required, detail);
            Aggregation::Count
        })
    }
}

#[cfg(test)]
mod tests;
