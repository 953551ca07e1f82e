//! Metrics.

use billing_domain::id::MetricId;
use billing_domain::metric::{Aggregation, Metric};
use billing_domain::store::MetricRepo;
use billing_domain::{Error, Noun};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::column::unreadable;
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
    is_cost_metric: bool,
    created_at: OffsetDateTime,
    archived_at: Option<OffsetDateTime>,
}

/// An aggregation out of its two columns.
pub(crate) fn aggregation(aggregation_type: &str, property_name: Option<String>) -> Result<Aggregation, Error> {
    match (aggregation_type, property_name) {
        ("count", None) => Ok(Aggregation::Count),
        ("sum", Some(property_name)) => Ok(Aggregation::Sum { property_name }),
        (other, _) => Err(unreadable(format!("aggregation {other:?}"))),
    }
}

impl TryFrom<MetricRow> for Metric {
    type Error = Error;

    fn try_from(row: MetricRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.into(),
            name: row.name,
            event_name: row.event_name,
            aggregation: aggregation(&row.aggregation_type, row.property_name)?,
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
