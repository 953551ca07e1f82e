//! Metrics.

use billing_domain::id::MetricId;
use billing_domain::metric::{
    AggregationKind, GaugeEventType, Granularity, Measure, MeasureFields, Metric, MetricFilters, MetricType,
};
use billing_domain::store::MetricRepo;
use billing_domain::{Error, Noun};
use diesel::dsl::SqlTypeOf;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{choice, from_json, to_json, unreadable};
use crate::pg::schema::metrics;
use crate::rollup;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = metrics, check_for_backend(Pg))]
struct MetricRow {
    organization_id: Uuid,
    id: Uuid,
    name: String,
    event_name: String,
    #[diesel(embed)]
    measure: MeasureColumns,
    filters: Option<Value>,
    is_cost_metric: bool,
    created_at: OffsetDateTime,
    archived_at: Option<OffsetDateTime>,
}

/// The columns that say how events become a quantity.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = metrics, check_for_backend(Pg))]
pub(crate) struct MeasureColumns {
    pub(crate) metric_type: String,
    pub(crate) aggregation_type: String,
    pub(crate) property_name: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) granularity: Option<String>,
    pub(crate) proration: Option<String>,
    pub(crate) custom_sql: Option<String>,
}

/// What the columns of [`MeasureColumns`] are in SQL.
pub(crate) type MeasureSql = SqlTypeOf<<MeasureColumns as Selectable<Pg>>::SelectExpression>;

/// The columns of [`MeasureColumns`], in its order, of `metric`.
pub(crate) const MEASURE_COLUMNS: &str =
    "metric.metric_type, metric.aggregation_type, metric.property_name, metric.event_type,
            metric.granularity, metric.proration, metric.custom_sql";

impl From<&Measure> for MeasureColumns {
    fn from(measure: &Measure) -> Self {
        let fields = measure.fields();
        let word = |granularity: Granularity| granularity.as_str().to_owned();
        Self {
            metric_type: fields.metric_type.as_str().to_owned(),
            aggregation_type: fields.aggregation_type.unwrap_or(AggregationKind::Count).as_str().to_owned(),
            property_name: fields.property_name,
            event_type: fields.event_type.map(|event_type| event_type.as_str().to_owned()),
            granularity: fields.granularity.map(word),
            proration: fields.proration.map(word),
            custom_sql: fields.custom_sql,
        }
    }
}

impl TryFrom<MeasureColumns> for Measure {
    type Error = Error;

    fn try_from(columns: MeasureColumns) -> Result<Self, Error> {
        let granularity =
            |text: Option<String>| text.map(|text| choice(Granularity::ALL, Granularity::as_str, &text)).transpose();
        let event_type = columns.event_type.map(|text| choice(GaugeEventType::ALL, GaugeEventType::as_str, &text));
        let fields = MeasureFields {
            metric_type: choice(MetricType::ALL, MetricType::as_str, &columns.metric_type)?,
            aggregation_type: Some(choice(AggregationKind::ALL, AggregationKind::as_str, &columns.aggregation_type)?),
            property_name: columns.property_name,
            event_type: event_type.transpose()?,
            granularity: granularity(columns.granularity)?,
            proration: granularity(columns.proration)?,
            custom_sql: columns.custom_sql,
        };
        fields.measure().map_err(|errors| unreadable(format!("a measure: {errors}")))
    }
}

/// A metric's filters out of their column.
pub(crate) fn filters(column: Option<Value>) -> Result<MetricFilters, Error> {
    column.map_or_else(|| Ok(MetricFilters::default()), from_json)
}

impl TryFrom<MetricRow> for Metric {
    type Error = Error;

    fn try_from(row: MetricRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.into(),
            name: row.name,
            event_name: row.event_name,
            measure: row.measure.try_into()?,
            filters: filters(row.filters)?,
            is_cost_metric: row.is_cost_metric,
            created_at: row.created_at,
            archived_at: row.archived_at,
        })
    }
}

impl PgTransaction<'_> {
    /// Those of the metrics that exist.
    pub(crate) fn load_metrics(&mut self, ids: &[Uuid]) -> Result<Vec<Metric>, Error> {
        let query = metrics::table.filter(metrics::organization_id.eq(self.tenant()).and(metrics::id.eq_any(ids)));
        self.query(|pg| query.select(MetricRow::as_select()).load(pg))?.into_iter().map(Metric::try_from).collect()
    }
}

impl MetricRepo for PgTransaction<'_> {
    fn insert(&mut self, metric: &Metric) -> Result<(), Error> {
        let row = MetricRow {
            organization_id: self.tenant(),
            id: metric.id.uuid(),
            name: metric.name.clone(),
            event_name: metric.event_name.clone(),
            measure: (&metric.measure).into(),
            filters: if metric.filters.is_empty() { None } else { Some(to_json(&metric.filters)?) },
            is_cost_metric: metric.is_cost_metric,
            created_at: metric.created_at,
            archived_at: metric.archived_at,
        };
        self.query(|pg| diesel::insert_into(metrics::table).values(&row).execute(pg))?;
        if matches!(metric.measure, Measure::Custom(_)) {
            // Nothing is rolled up for it, but from now on events of all names may count.
            let tenant = self.tenant();
            return self.query(|pg| rollup::renew_ingest_version(pg, tenant));
        }
        self.start_rollups(&[metric.id.uuid()], &[])
    }

    fn get(&mut self, id: MetricId) -> Result<Metric, Error> {
        let query = metrics::table.find((self.tenant(), id.uuid())).select(MetricRow::as_select());
        let row = self.query(|pg| query.first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::Metric))?.try_into()
    }

    fn list(&mut self) -> Result<Vec<Metric>, Error> {
        let query = metrics::table.filter(metrics::organization_id.eq(self.tenant()));
        let query = query.order((metrics::created_at, metrics::id)).select(MetricRow::as_select());
        self.query(|pg| query.load(pg))?.into_iter().map(Metric::try_from).collect()
    }

    fn update(&mut self, metric: &Metric) -> Result<(), Error> {
        let target = metrics::table.find((self.tenant(), metric.id.uuid()));
        let changes = (metrics::name.eq(&metric.name), metrics::archived_at.eq(metric.archived_at));
        match self.query(|pg| diesel::update(target).set(changes).execute(pg))? {
            0 => Err(Error::NotFound(Noun::Metric)),
            _ => Ok(()),
        }
    }
}
