//! What an hour gains, metric by metric, and which metrics an event counts for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use billing_domain::event::Event;
use billing_domain::metric::Measured;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::bucket::{RolledMetric, dimensions};
use super::figures::BucketDelta;

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
