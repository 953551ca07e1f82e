//! Metrics.

use billing_domain::id::MetricId;
use billing_domain::metric::{Aggregation, AggregationKind, Metric, MetricFilters};
use billing_domain::store::MetricRepo;
use billing_domain::{Error, Noun};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::column::{choice, from_json, to_json, unreadable};
use crate::rollup;
use crate::schema::metrics;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = metrics, check_for_backend(Pg))]
struct MetricRow {
    organization_id: Uuid,
    id: Uuid,
    name: String,
    event_name: String,
    aggregation_type: String,
    property_name: Option<String>,
    filters: Option<Value>,
    is_cost_metric: bool,
    created_at: OffsetDateTime,
    archived_at: Option<OffsetDateTime>,
}

/// An aggregation out of its two columns.
pub(crate) fn aggregation(aggregation_type: &str, property_name: Option<String>) -> Result<Aggregation, Error> {
    let kind = choice(AggregationKind::ALL, AggregationKind::as_str, aggregation_type)?;
    kind.of(property_name).ok_or_else(|| unreadable(format!("{aggregation_type} of no property")))
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
            aggregation: aggregation(&row.aggregation_type, row.property_name)?,
            filters: filters(row.filters)?,
            is_cost_metric: row.is_cost_metric,
            created_at: row.created_at,
            archived_at: row.archived_at,
        })
    }
}

impl MetricRepo for PgTransaction<'_> {
    fn insert(&mut self, metric: &Metric) -> Result<(), Error> {
        let row = MetricRow {
            organization_id: self.tenant(),
            id: metric.id.uuid(),
            name: metric.name.clone(),
            event_name: metric.event_name.clone(),
            aggregation_type: metric.aggregation.as_str().to_owned(),
            property_name: metric.aggregation.property_name().map(str::to_owned),
            filters: if metric.filters.is_empty() { None } else { Some(to_json(&metric.filters)?) },
            is_cost_metric: metric.is_cost_metric,
            created_at: metric.created_at,
            archived_at: metric.archived_at,
        };
        self.query(|pg| diesel::insert_into(metrics::table).values(&row).execute(pg))?;
        let (tenant, lanes) = (self.tenant(), self.shared.ingest.lanes());
        self.query(|pg| rollup::start(pg, tenant, lanes, &[metric.id.uuid()], &[]))
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
        let own = metrics::table.find((self.tenant(), metric.id.uuid()));
        let changes = (metrics::name.eq(&metric.name), metrics::archived_at.eq(metric.archived_at));
        match self.query(|pg| diesel::update(own).set(changes).execute(pg))? {
            0 => Err(Error::NotFound(Noun::Metric)),
            _ => Ok(()),
        }
    }
}
