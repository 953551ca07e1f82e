//! How events change a bucket.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use bigdecimal::{BigDecimal, Zero};
use billing_domain::decimal::{number, optional_number};
use billing_domain::event::Event;
use billing_domain::metric::{Aggregation, Measured};
use billing_domain::period::instant;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::bucket::{RolledMetric, dimensions};

/// Room for so many metrics is made before they are read.
const METRICS_EXPECTED: usize = 8;

/// Customer, event name and dimensions.
pub(super) type HotBucketKey = (Uuid, String, String);

/// What one hour has gained.
pub(super) struct Hour {
    pub(super) start: OffsetDateTime,
    pub(super) deltas: BucketDeltas,
}

/// Deltas by metric; as JSON an object of it by the 32 digits of their ids. Few metrics count one event: a list in
/// the order of their ids takes less time and memory than a tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct BucketDeltas(Vec<(Uuid, BucketDelta)>);

impl BucketDeltas {
    /// None yet, of so many metrics.
    pub(super) fn of_at_most(metrics: usize) -> Self {
        Self(Vec::with_capacity(metrics))
    }

    /// How many metrics change.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The delta of the metric.
    pub(super) fn of(&mut self, metric: Uuid) -> &mut BucketDelta {
        let place = match self.0.binary_search_by_key(&metric, |(id, _)| *id) {
            Ok(place) => place,
            Err(place) => {
                self.0.insert(place, (metric, BucketDelta::default()));
                place
            }
        };
        &mut self.0[place].1
    }

    /// Takes in what the same hour gained otherwise.
    pub(super) fn merge(&mut self, others: Self) {
        if self.0.is_empty() {
            *self = others;
            return;
        }
        others.0.into_iter().for_each(|(metric, other)| self.of(metric).merge(other));
    }
}

impl IntoIterator for BucketDeltas {
    type Item = (Uuid, BucketDelta);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Serialize for BucketDeltas {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (metric, delta) in &self.0 {
            map.serialize_entry(&*metric.simple().encode_lower(&mut Uuid::encode_buffer()), delta)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for BucketDeltas {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByMetric;

        impl<'de> Visitor<'de> for ByMetric {
            type Value = BucketDeltas;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("deltas by metric id")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<BucketDeltas, A::Error> {
                let mut deltas = BucketDeltas::of_at_most(METRICS_EXPECTED);
                while let Some((metric, delta)) = map.next_entry::<&str, BucketDelta>()? {
                    let metric = Uuid::parse_str(metric).map_err(de::Error::custom)?;
                    *deltas.of(metric) = delta;
                }
                Ok(deltas)
            }
        }

        deserializer.deserialize_map(ByMetric)
    }
}

/// How one bucket changes. Only what the metric's aggregation needs is there.
///
/// As JSON a list in the order of the fields, which ends with the last that is there: `[12]` of a count. It is written with
/// nearly every event, and `deltas_of_hour` reads it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct BucketDelta {
    pub(super) event_count: i64,
    #[serde(default, with = "number")]
    pub(super) sum: BigDecimal,
    #[serde(default, with = "optional_number")]
    pub(super) max: Option<BigDecimal>,
    #[serde(default, with = "optional_number")]
    pub(super) min: Option<BigDecimal>,
    #[serde(default)]
    pub(super) latest: Option<Box<Latest>>,
}

impl Serialize for BucketDelta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let figures = [Some(&self.sum), self.max.as_ref(), self.min.as_ref()];
        let needed = match self {
            Self { latest: Some(_), .. } | Self { min: Some(_), .. } => 3,
            Self { max: Some(_), .. } => 2,
            Self { sum, .. } => usize::from(!sum.is_zero()),
        };
        let mut list = serializer.serialize_seq(None)?;
        list.serialize_element(&self.event_count)?;
        figures[..needed].iter().try_for_each(|figure| list.serialize_element(&Figure(*figure)))?;
        self.latest.iter().try_for_each(|latest| list.serialize_element(latest))?;
        list.end()
    }
}

/// A number with all its digits, or null.
struct Figure<'n>(Option<&'n BigDecimal>);

impl Serialize for Figure<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(figure) => number::serialize(figure, serializer),
            None => serializer.serialize_none(),
        }
    }
}

/// The number of the latest event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Latest {
    #[serde(with = "number")]
    pub(super) number: BigDecimal,
    #[serde(with = "instant")]
    pub(super) at: OffsetDateTime,
    /// The event's idempotency id: of events at one instant that with the greatest is the latest.
    pub(super) id: String,
}

/// A list in the order of the fields.
impl Serialize for Latest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Listed<'l>(
            #[serde(with = "number")] &'l BigDecimal,
            #[serde(with = "instant")] &'l OffsetDateTime,
            &'l str,
        );

        Listed(&self.number, &self.at, &self.id).serialize(serializer)
    }
}

impl Latest {
    fn place(&self) -> (OffsetDateTime, &str) {
        (self.at, &self.id)
    }
}

impl BucketDelta {
    /// Counts one event.
    pub(super) fn add(&mut self, aggregation: &Aggregation, event: &Event, measured: &Measured) {
        self.event_count += 1;
        let Measured::Number(number) = measured else { return };
        match aggregation {
            Aggregation::Sum { .. } | Aggregation::Average { .. } => self.sum += number,
            Aggregation::Max { .. } if self.max.as_ref().is_none_or(|max| number > max) => {
                self.max = Some(number.clone());
            }
            Aggregation::Min { .. } if self.min.as_ref().is_none_or(|min| number < min) => {
                self.min = Some(number.clone());
            }
            Aggregation::Latest { .. } => {
                let place = (event.time_created, event.idempotency_id.as_str());
                if self.latest.as_ref().is_none_or(|latest| place > latest.place()) {
                    let latest = Latest { number: number.clone(), at: place.0, id: place.1.to_owned() };
                    self.latest = Some(Box::new(latest));
                }
            }
            Aggregation::Max { .. } | Aggregation::Min { .. } | Aggregation::Count | Aggregation::Unique { .. } => {}
        }
    }

    /// Takes in what the same bucket gained otherwise.
    pub(super) fn merge(&mut self, other: Self) {
        self.event_count += other.event_count;
        self.sum += other.sum;
        self.max = self.max.take().into_iter().chain(other.max).max();
        self.min = self.min.take().into_iter().chain(other.min).min();
        let latest = self.latest.take().into_iter().chain(other.latest);
        self.latest = latest.max_by(|a, b| a.place().cmp(&b.place()));
    }
}

/// Calls `count` with each metric and dimensions that `event` counts for. The metrics must be those of its name.
pub(super) fn for_each_count(
    event: &Event,
    metrics: &[RolledMetric],
    mut count: impl FnMut(&RolledMetric, String, &Measured),
) {
    for metric in metrics.iter().filter(|metric| metric.filters.matches(&event.properties)) {
        let Some(measured) = metric.aggregation.measured(event) else { continue };
        for dimensions in metric.key_sets.iter().filter_map(|keys| event_dimensions(event, keys)) {
            count(metric, dimensions, &measured);
        }
    }
}

/// The dimensions of an event under a set of property names; none if it lacks one of them.
fn event_dimensions(event: &Event, keys: &[String]) -> Option<String> {
    let values: Option<BTreeMap<&str, Cow<'_, str>>> =
        keys.iter().map(|key| Some((key.as_str(), event.properties.text(key)?))).collect();
    values.map(|values| dimensions(&values))
}
