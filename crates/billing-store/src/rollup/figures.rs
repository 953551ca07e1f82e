//! The figures of a bucket: what an event adds to them, how two come together, how they are written. Whoever adds a figure
//! writes it here and nowhere else.

use bigdecimal::{BigDecimal, Zero};
use billing_domain::decimal::{number, optional_number};
use billing_domain::event::Event;
use billing_domain::metric::{Aggregation, Measured};
use billing_domain::period::instant;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Nullable, Numeric, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::statement::statement;

/// The columns that a bucket's figures are in.
const FIGURES: &str = "event_count, sum, max, min, latest, latest_at, latest_id";

/// Customer, metric, dimensions, hours and first instant of a bucket.
pub(super) type BucketKey = (Uuid, Uuid, String, i16, OffsetDateTime);

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

statement! {
    /// Adds to the roll-ups.
    AddToRollups -> BigInt {
        "INSERT INTO usage_rollup AS rollup (organization_id, customer_key, metric_id, dimensions, bucket_hours, bucket,
            " [FIGURES] ")
        SELECT " organization: Uuid as SqlUuid; ", addition.*
        FROM unnest(
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " metrics: Vec<Uuid> as Array<SqlUuid>; ",
            " dimensions: Vec<String> as Array<Text>; ",
            " bucket_hours: Vec<i16> as Array<SmallInt>; ",
            " buckets: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " event_counts: Vec<i64> as Array<BigInt>; ",
            " sums: Vec<BigDecimal> as Array<Numeric>; ",
            " maxima: Vec<Option<BigDecimal>> as Array<Nullable<Numeric>>; ",
            " minima: Vec<Option<BigDecimal>> as Array<Nullable<Numeric>>; ",
            " latest: Vec<Option<BigDecimal>> as Array<Nullable<Numeric>>; ",
            " latest_times: Vec<Option<OffsetDateTime>> as Array<Nullable<Timestamptz>>; ",
            " latest_ids: Vec<Option<String>> as Array<Nullable<Text>>; "
        ) AS addition
        ON CONFLICT (customer_key, metric_id, dimensions, bucket_hours, bucket) DO UPDATE SET
            event_count = rollup.event_count + excluded.event_count,
            sum = rollup.sum + excluded.sum,
            max = greatest(rollup.max, excluded.max),
            min = least(rollup.min, excluded.min),
            latest = CASE WHEN (excluded.latest_at, excluded.latest_id) > (rollup.latest_at, rollup.latest_id)
                THEN excluded.latest ELSE rollup.latest END,
            latest_at = CASE WHEN (excluded.latest_at, excluded.latest_id) > (rollup.latest_at, rollup.latest_id)
                THEN excluded.latest_at ELSE rollup.latest_at END,
            latest_id = CASE WHEN (excluded.latest_at, excluded.latest_id) > (rollup.latest_at, rollup.latest_id)
                THEN excluded.latest_id ELSE rollup.latest_id END"
    }
}

statement! {
    /// Makes the totals of one day of its hours.
    AddDay -> BigInt {
        "INSERT INTO usage_rollup (organization_id, customer_key, metric_id, dimensions, bucket_hours, bucket,
            " [FIGURES] ")
        SELECT organization_id, customer_key, metric_id, dimensions, 24, day.start,
            sum(event_count), sum(sum), max(max), min(min),
            (array_agg(latest ORDER BY latest_at DESC NULLS LAST, latest_id DESC))[1],
            (array_agg(latest_at ORDER BY latest_at DESC NULLS LAST, latest_id DESC))[1],
            (array_agg(latest_id ORDER BY latest_at DESC NULLS LAST, latest_id DESC))[1]
        FROM usage_rollup, (SELECT " day: OffsetDateTime as Timestamptz; " AS start) day
        WHERE customer_key = " customer: Uuid as SqlUuid; " AND metric_id = " metric: Uuid as SqlUuid; "
            AND bucket_hours = 1 AND bucket >= day.start AND bucket < day.start + interval '24 hours'
        GROUP BY organization_id, customer_key, metric_id, dimensions, day.start"
    }
}

statement! {
    /// Removes the totals of one day.
    RemoveDay -> BigInt {
        "DELETE FROM usage_rollup
        WHERE customer_key = " customer: Uuid as SqlUuid; " AND metric_id = " metric: Uuid as SqlUuid; "
            AND bucket_hours = 24 AND bucket = " day: OffsetDateTime as Timestamptz; ""
    }
}

/// Makes the totals of a day anew, of its hours.
pub(crate) fn make_day_of_hours(
    pg: &mut PgConnection,
    customer: Uuid,
    metric: Uuid,
    day: OffsetDateTime,
) -> QueryResult<()> {
    RemoveDay { customer, metric, day }.execute(pg)?;
    AddDay { day, customer, metric }.execute(pg).map(drop)
}

impl AddToRollups {
    /// Adds nothing yet.
    pub(super) fn of(organization: Uuid) -> Self {
        Self {
            organization,
            customers: Vec::new(),
            metrics: Vec::new(),
            dimensions: Vec::new(),
            bucket_hours: Vec::new(),
            buckets: Vec::new(),
            event_counts: Vec::new(),
            sums: Vec::new(),
            maxima: Vec::new(),
            minima: Vec::new(),
            latest: Vec::new(),
            latest_times: Vec::new(),
            latest_ids: Vec::new(),
        }
    }

    /// Adds what a bucket has gained.
    pub(super) fn push(&mut self, (customer, metric, dimensions, hours, bucket): BucketKey, delta: BucketDelta) {
        self.customers.push(customer);
        self.metrics.push(metric);
        self.dimensions.push(dimensions);
        self.bucket_hours.push(hours);
        self.buckets.push(bucket);
        self.event_counts.push(delta.event_count);
        self.sums.push(delta.sum);
        self.maxima.push(delta.max);
        self.minima.push(delta.min);
        let latest = delta.latest.map(|latest| (latest.number, latest.at, latest.id));
        let (number, at, id) = latest.map_or((None, None, None), |(number, at, id)| (Some(number), Some(at), Some(id)));
        self.latest.push(number);
        self.latest_times.push(at);
        self.latest_ids.push(id);
    }
}
