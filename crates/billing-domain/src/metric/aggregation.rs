//! What an aggregation reads of an event, what the events come to, and the quantity of that. This is the one definition.

use std::collections::BTreeSet;

use bigdecimal::BigDecimal;

use crate::decimal;
use crate::event::Event;

/// What one event brings to the usage of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measured {
    /// Itself.
    Event,
    /// A number.
    Number(BigDecimal),
    /// A text, to be told from others.
    Text(String),
}

/// How the events of a span of time become a quantity.
///
/// All but [`Aggregation::Count`] look at one property. An event whose property cannot be used does not count at
/// all: a number is needed, or a numeric string; for [`Aggregation::Unique`] anything with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// The number of events.
    Count,
    /// The sum of a property.
    Sum {
        /// The property.
        property_name: String,
    },
    /// The greatest value of a property; it may be negative. Of no events: 0.
    Max {
        /// The property.
        property_name: String,
    },
    /// The least value of a property; it may be negative. Of no events: 0.
    Min {
        /// The property.
        property_name: String,
    },
    /// How many different texts a property has.
    Unique {
        /// The property.
        property_name: String,
    },
    /// The sum of a property divided by the number of events. Of no events: 0.
    Average {
        /// The property.
        property_name: String,
    },
    /// The value of the latest event. Of events at one instant that with the greatest idempotency id counts, by the
    /// bytes of its text. Of no events: 0.
    Latest {
        /// The property.
        property_name: String,
    },
}

choices! {
    /// The kinds of [`Aggregation`].
    pub AggregationKind {
        /// [`Aggregation::Count`].
        Count = "count",
        /// [`Aggregation::Sum`].
        Sum = "sum",
        /// [`Aggregation::Max`].
        Max = "max",
        /// [`Aggregation::Min`].
        Min = "min",
        /// [`Aggregation::Unique`].
        Unique = "unique",
        /// [`Aggregation::Average`].
        Average = "average",
        /// [`Aggregation::Latest`].
        Latest = "latest",
    }
}

impl AggregationKind {
    /// The aggregation of a property; a count looks at none. `None`: a property is needed.
    pub fn of(self, property_name: Option<String>) -> Option<Aggregation> {
        Some(match (self, property_name) {
            (Self::Count, _) => Aggregation::Count,
            (_, None) => return None,
            (Self::Sum, Some(property_name)) => Aggregation::Sum { property_name },
            (Self::Max, Some(property_name)) => Aggregation::Max { property_name },
            (Self::Min, Some(property_name)) => Aggregation::Min { property_name },
            (Self::Unique, Some(property_name)) => Aggregation::Unique { property_name },
            (Self::Average, Some(property_name)) => Aggregation::Average { property_name },
            (Self::Latest, Some(property_name)) => Aggregation::Latest { property_name },
        })
    }
}

impl Aggregation {
    /// Its kind.
    pub fn kind(&self) -> AggregationKind {
        match self {
            Self::Count => AggregationKind::Count,
            Self::Sum { .. } => AggregationKind::Sum,
            Self::Max { .. } => AggregationKind::Max,
            Self::Min { .. } => AggregationKind::Min,
            Self::Unique { .. } => AggregationKind::Unique,
            Self::Average { .. } => AggregationKind::Average,
            Self::Latest { .. } => AggregationKind::Latest,
        }
    }

    /// The text on the wire and in the store.
    pub fn as_str(&self) -> &'static str {
        self.kind().as_str()
    }

    /// The event property that is aggregated, if one is.
    pub fn property_name(&self) -> Option<&str> {
        match self {
            Self::Count => None,
            Self::Sum { property_name }
            | Self::Max { property_name }
            | Self::Min { property_name }
            | Self::Unique { property_name }
            | Self::Average { property_name }
            | Self::Latest { property_name } => Some(property_name),
        }
    }

    /// Whether the totals of two spans give those of both: different texts do not add up.
    pub fn adds_up(&self) -> bool {
        !matches!(self, Self::Unique { .. })
    }

    /// What one event brings; none if its property cannot be used.
    pub fn measured(&self, event: &Event) -> Option<Measured> {
        match self {
            Self::Count => Some(Measured::Event),
            Self::Unique { property_name } => {
                event.properties.text(property_name).map(|text| Measured::Text(text.into_owned()))
            }
            Self::Sum { property_name }
            | Self::Max { property_name }
            | Self::Min { property_name }
            | Self::Average { property_name }
            | Self::Latest { property_name } => event.properties.number(property_name).map(Measured::Number),
        }
    }

    /// The quantity that the totals come to.
    pub fn quantity(&self, totals: &Totals) -> BigDecimal {
        let or_zero = |value: &Option<BigDecimal>| value.clone().unwrap_or_default();
        match self {
            Self::Count => BigDecimal::from(totals.event_count),
            Self::Sum { .. } => totals.sum.clone(),
            Self::Max { .. } => or_zero(&totals.max),
            Self::Min { .. } => or_zero(&totals.min),
            Self::Unique { .. } => BigDecimal::from(totals.distinct),
            Self::Average { .. } => decimal::divide(&totals.sum, &BigDecimal::from(totals.event_count)),
            Self::Latest { .. } => or_zero(&totals.latest),
        }
    }
}

/// What the events of one metric come to, before its aggregation makes a quantity of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events that count.
    pub event_count: u64,
    /// Their numbers added up.
    pub sum: BigDecimal,
    /// The greatest of them.
    pub max: Option<BigDecimal>,
    /// The least of them.
    pub min: Option<BigDecimal>,
    /// That of the latest event.
    pub latest: Option<BigDecimal>,
    /// How many different texts there are.
    pub distinct: u64,
}

impl Totals {
    /// What these events of a metric come to, in any order, each with what it brings.
    pub(crate) fn of<'e>(events: impl Iterator<Item = (&'e Event, Measured)>) -> Self {
        let mut totals = Self::default();
        let mut texts = BTreeSet::new();
        let mut latest_key = None;
        for (event, measured) in events {
            totals.event_count += 1;
            match measured {
                Measured::Event => {}
                Measured::Text(text) => {
                    texts.insert(text);
                }
                Measured::Number(number) => {
                    totals.sum += &number;
                    totals.max = Some(totals.max.map_or_else(|| number.clone(), |max| max.max(number.clone())));
                    totals.min = Some(totals.min.map_or_else(|| number.clone(), |min| min.min(number.clone())));
                    let key = Some((event.time_created, event.idempotency_id.as_str()));
                    if key > latest_key {
                        (latest_key, totals.latest) = (key, Some(number));
                    }
                }
            }
        }
        totals.distinct = texts.len() as u64;
        totals
    }
}
