//! Which metrics are rolled up, and rolling them up from now on.

use std::collections::HashMap;

use billing_domain::Error;
use billing_domain::metric::Measure;
use diesel::prelude::*;
use diesel::sql_types::{Array, Jsonb, Nullable, Text, Uuid as SqlUuid};
use serde_json::Value;
use uuid::Uuid;

use super::metric::{self, MEASURE_COLUMNS, MeasureColumns, MeasureSql};
use crate::pg::error::Failure;
use crate::pg::statement::statement;
use crate::rollup::{RolledMetric, Starting};
use crate::transaction::PgTransaction;

statement! {
    /// What is rolled up, metric by metric.
    ReadRollups -> (Text, SqlUuid, MeasureSql, Nullable<Jsonb>, Array<Text>) {
        "SELECT metric.event_name, metric.id, " [MEASURE_COLUMNS] ", metric.filters, rollup.filter_keys
        FROM metrics metric
        JOIN metric_rollups rollup ON rollup.organization_id = metric.organization_id AND rollup.metric_id = metric.id
        WHERE metric.organization_id = " organization: Uuid as SqlUuid; " AND metric.metric_type <> 'custom'
        ORDER BY metric.id, rollup.filter_keys"
    }
}

/// A row of [`ReadRollups`].
#[derive(Queryable)]
struct RollupRow {
    event_name: String,
    metric: Uuid,
    measure: MeasureColumns,
    filters: Option<Value>,
    filter_keys: Vec<String>,
}

/// What is rolled up of an organization, by the names of events.
pub(crate) fn rolled_metrics(
    pg: &mut PgConnection,
    organization: Uuid,
) -> Result<HashMap<String, Vec<RolledMetric>>, Failure> {
    let mut metrics: HashMap<String, Vec<RolledMetric>> = HashMap::new();
    let rows: Vec<RollupRow> = ReadRollups { organization }.load(pg)?;
    for row in rows {
        let of_name = metrics.entry(row.event_name).or_default();
        match of_name.last_mut() {
            Some(known) if known.id == row.metric => known.key_sets.push(row.filter_keys),
            _ => {
                let aggregation = Measure::try_from(row.measure)?.aggregation();
                let (filters, key_sets) = (metric::filters(row.filters)?, vec![row.filter_keys]);
                of_name.push(RolledMetric { id: row.metric, aggregation, filters, key_sets });
            }
        }
    }
    Ok(metrics)
}

impl PgTransaction<'_> {
    /// Starts rolling `metrics` up by `filter_keys` (none: in total), unless that goes on already or cannot be. What is complete
    /// lies behind the last event of any lane.
    pub(crate) fn start_rollups(&mut self, metrics: &[Uuid], filter_keys: &[String]) -> Result<(), Error> {
        let (tenant, key_ranges) = (self.tenant(), self.shared.key_ranges);
        let lanes = &self.shared.lanes;
        if self.query(|pg| lanes.look_for_nodes(pg))? {
            return self.start_incomplete_rollups(metrics, filter_keys);
        }
        let starting = self.query(|pg| Starting::begin(pg, tenant, key_ranges, metrics, filter_keys))?;
        let Some(mut starting) = starting else { return Ok(()) };
        self.in_every_lane(|pg| starting.look(pg))?;
        self.query(|pg| starting.end(pg))
    }

    /// Where some of those who store events see it later than others: what is complete is found out by whoever fills them in, once all of
    /// them have.
    fn start_incomplete_rollups(&mut self, metrics: &[Uuid], filter_keys: &[String]) -> Result<(), Error> {
        let tenant = self.tenant();
        let starting = self.query(|pg| Starting::begin_unseen(pg, tenant, metrics, filter_keys))?;
        let Some(starting) = starting else { return Ok(()) };
        if self.away().is_some() {
            self.at_home(|home| Ok(starting.end_incomplete(home)?))?;
            return self.catch_up();
        }
        self.query(|pg| starting.end_incomplete(pg))
    }
}
