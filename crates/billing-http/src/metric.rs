//! Metrics: what is measured.

use actix_web::web;
use billing_domain::id::MetricId;
use billing_domain::metric::{
    AggregationKind, BillableAggregation, CategoricalFilter, CategoricalOperator, GaugeEventType, Granularity, Measure,
    MeasureFields, Metric, MetricFilters, MetricType, NumericFilter, NumericOperator,
};
use billing_domain::workflow::{CreateMetric, archive_metric, create_metric};
use billing_domain::{FieldCode, FieldErrors};

use crate::answer::Created;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::wire::{Number, body, read_through, view, words_of};

/// The calls about metrics.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/metrics/", "List metrics", list).lists::<MetricView>(),
        post("/api/metrics/", "Create a metric", create).takes::<CreateMetric>().answers::<MetricView>(201),
        get("/api/metrics/{metric_id}/", "Show a metric", show).answers::<MetricView>(200),
        post("/api/metrics/{metric_id}/archive/", "Archive a metric that no plan version uses", archive)
            .answers::<MetricView>(200),
    ]
}

words_of! {
    MetricType, AggregationKind, BillableAggregation, GaugeEventType, Granularity, NumericOperator, CategoricalOperator
}

body! {
    /// Lets an event count by a number in it.
    NumericFilterBody {
        /// The property; an event without a usable number there does not count.
        required property_name: String,
        /// How it must compare.
        required operator: NumericOperator,
        /// With what.
        required comparison_value: Number,
    }
}

body! {
    /// Lets an event count by a text in it.
    CategoricalFilterBody {
        /// The property; an event that lacks it has none of the texts.
        required property_name: String,
        /// Whether it must have one of the texts, or none.
        required operator: CategoricalOperator,
        /// The texts, at most 100.
        required comparison_value: Vec<String>,
    }
}

body! {
    /// A new metric.
    CreateMetricBody {
        /// Its name; made from what it measures when missing.
        optional metric_name: String,
        /// The events that count; needed but for a custom metric, whose query says itself which events count.
        optional event_name: String,
        /// How it looks at them: each on its own, as a level that stays, in a sliding window, or by a query; `counter` when missing.
        optional metric_type: MetricType,
        /// What it makes of them, or of those in one window; `count` when missing. Of a gauge always `max`; of a rate `count`, `sum`, `average` or `max`.
        optional aggregation_type: AggregationKind,
        /// Another name of aggregation_type, which existing clients use; where both are given they say the same.
        optional usage_aggregation_type: AggregationKind,
        /// What existing clients say of how the parts of a period come to what is billed; it follows from metric_type, and nothing else is taken: `max` for a rate, otherwise `sum`.
        optional billable_aggregation_type: BillableAggregation,
        /// The event property that is aggregated; needed for all but a count and a query, which have none.
        optional property_name: String,
        /// Whether it tracks the organization's own costs.
        optional is_cost_metric: bool,
        /// For gauges, and needed: whether the property is the new level or by how much the level moves.
        optional event_type: GaugeEventType,
        /// For gauges and rates, and needed: what one unit is per (`total`: the plan's duration), or the window, which is not `total`.
        optional granularity: Granularity,
        /// For gauges: the buckets it is weighed by, not longer than the granularity; `total` when missing: its peak counts.
        optional proration: Granularity,
        /// For custom metrics, and needed: a query over `events` with one column `usage_qty`, in the language of `docs/pricing.md`.
        optional custom_sql: String,
        /// Which events count, by text; at most 20, and all must let an event pass.
        optional categorical_filters: Vec<CategoricalFilter>,
        /// Which events count, by number; at most 20, and all must let an event pass.
        optional numeric_filters: Vec<NumericFilter>,
    }
}

impl CreateMetricBody {
    fn read(self) -> Result<CreateMetric, FieldErrors> {
        let mut errors = FieldErrors::default();
        let (aggregation_type, said_at) = self.aggregation(&mut errors);
        let agrees = errors.is_empty();
        self.check_billable_aggregation(&mut errors);
        let metric_type = self.metric_type.unwrap_or_default();
        let fields = MeasureFields {
            metric_type,
            aggregation_type,
            property_name: self.property_name,
            event_type: self.event_type,
            granularity: self.granularity,
            proration: self.proration,
            custom_sql: self.custom_sql,
        };
        // Of two aggregations that differ neither is the one to judge the other fields by.
        let measure = agrees.then(|| errors.keep_all("", at_own_name(fields.measure(), said_at))).flatten();
        let event_name = match self.event_name {
            Some(name) => name,
            // The query of a custom metric says itself which events count.
            None if metric_type == MetricType::Custom => String::new(),
            None => {
                errors.push("event_name", FieldCode::Required, "This field is required.");
                return Err(errors);
            }
        };
        let Some(measure) = measure else { return Err(errors) };
        let command = CreateMetric {
            name: self.metric_name,
            event_name,
            measure,
            filters: MetricFilters {
                numeric_filters: self.numeric_filters.unwrap_or_default(),
                categorical_filters: self.categorical_filters.unwrap_or_default(),
            },
            is_cost_metric: self.is_cost_metric.unwrap_or(false),
        };
        errors.keep_all("", command.check());
        errors.finish(command)
    }

    /// What the aggregation is to be, and the name of the field that says so.
    fn aggregation(&self, errors: &mut FieldErrors) -> (Option<AggregationKind>, &'static str) {
        match (self.aggregation_type, self.usage_aggregation_type) {
            (None, Some(kind)) => (Some(kind), "usage_aggregation_type"),
            (Some(kind), Some(other)) if kind != other => {
                let detail = format!("This is aggregation_type, which says {}; give one of the two.", kind.as_str());
                errors.push("usage_aggregation_type", FieldCode::InvalidChoice, detail);
                (Some(kind), "aggregation_type")
            }
            (kind, _) => (kind, "aggregation_type"),
        }
    }

    fn check_billable_aggregation(&self, errors: &mut FieldErrors) {
        let Some(asked) = self.billable_aggregation_type else { return };
        let metric_type = self.metric_type.unwrap_or_default();
        let only = metric_type.billable_aggregation();
        if asked != only {
            let (kind, only) = (metric_type.as_str(), only.as_str());
            let detail = format!("The billable_aggregation_type of a {kind} is {only}; say that or leave it out.");
            errors.push("billable_aggregation_type", FieldCode::InvalidChoice, detail);
        }
    }
}

/// What is wrong with the aggregation is told of the field that said it.
fn at_own_name(measure: Result<Measure, FieldErrors>, said_at: &str) -> Result<Measure, FieldErrors> {
    measure.map_err(|mut errors| {
        for error in errors.0.iter_mut().filter(|error| error.attr == "aggregation_type") {
            said_at.clone_into(&mut error.attr);
        }
        errors
    })
}

impl NumericFilterBody {
    fn read(self) -> Result<NumericFilter, FieldErrors> {
        let Self { property_name, operator, comparison_value: Number(comparison_value) } = self;
        Ok(NumericFilter { property_name, operator, comparison_value })
    }
}

impl CategoricalFilterBody {
    fn read(self) -> Result<CategoricalFilter, FieldErrors> {
        let Self { property_name, operator, comparison_value } = self;
        Ok(CategoricalFilter { property_name, operator, comparison_value })
    }
}

read_through! {
    CreateMetric = CreateMetricBody;
    NumericFilter = NumericFilterBody;
    CategoricalFilter = CategoricalFilterBody;
}

view! {
    /// Lets an event count by a number in it.
    NumericFilterView {
        /// The property.
        property_name: String,
        /// How it must compare.
        operator: NumericOperator,
        /// With what.
        comparison_value: Number,
    }
}

view! {
    /// Lets an event count by a text in it.
    CategoricalFilterView {
        /// The property.
        property_name: String,
        /// Whether it must have one of the texts, or none.
        operator: CategoricalOperator,
        /// The texts.
        comparison_value: Vec<String>,
    }
}

impl From<&NumericFilter> for NumericFilterView {
    fn from(filter: &NumericFilter) -> Self {
        Self {
            property_name: filter.property_name.clone(),
            operator: filter.operator,
            comparison_value: (&filter.comparison_value).into(),
        }
    }
}

impl From<&CategoricalFilter> for CategoricalFilterView {
    fn from(filter: &CategoricalFilter) -> Self {
        Self {
            property_name: filter.property_name.clone(),
            operator: filter.operator,
            comparison_value: filter.comparison_value.clone(),
        }
    }
}

view! {
    /// A metric.
    MetricView {
        /// Its id.
        metric_id: MetricId,
        /// Its name.
        metric_name: String,
        /// The events that count.
        event_name: String,
        /// How it looks at them.
        metric_type: MetricType,
        /// What it makes of them.
        aggregation_type: AggregationKind,
        /// The same, by the name that existing clients know.
        usage_aggregation_type: AggregationKind,
        /// How what was measured over the parts of a period comes to what is billed: `max` for a rate, otherwise `sum`.
        billable_aggregation_type: BillableAggregation,
        /// The event property that is aggregated.
        property_name: Option<String>,
        /// For gauges only: whether the property is the new level or by how much the level moves.
        event_type: Option<GaugeEventType>,
        /// For gauges and rates only: what one unit is per, or the window.
        granularity: Option<Granularity>,
        /// For gauges only: the buckets it is weighed by; `total`: its peak counts.
        proration: Option<Granularity>,
        /// For custom metrics only: the query.
        custom_sql: Option<String>,
        /// Whether it tracks the organization's own costs.
        is_cost_metric: bool,
        /// Which events count, by text.
        categorical_filters: Vec<CategoricalFilterView>,
        /// Which events count, by number.
        numeric_filters: Vec<NumericFilterView>,
    }
}

impl From<&Metric> for MetricView {
    fn from(metric: &Metric) -> Self {
        let fields = metric.measure.fields();
        let aggregation_type = fields.aggregation_type.unwrap_or(AggregationKind::Count);
        Self {
            metric_id: metric.id,
            metric_name: metric.name.clone(),
            event_name: metric.event_name.clone(),
            metric_type: fields.metric_type,
            aggregation_type,
            usage_aggregation_type: aggregation_type,
            billable_aggregation_type: fields.metric_type.billable_aggregation(),
            property_name: fields.property_name,
            event_type: fields.event_type,
            granularity: fields.granularity,
            proration: fields.proration,
            custom_sql: fields.custom_sql,
            is_cost_metric: metric.is_cost_metric,
            categorical_filters: metric.filters.categorical_filters.iter().map(Into::into).collect(),
            numeric_filters: metric.filters.numeric_filters.iter().map(Into::into).collect(),
        }
    }
}

/// `GET /api/metrics/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<MetricView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        let mut metrics = tx.metrics().list()?;
        metrics.retain(|metric| metric.archived_at.is_none());
        map_page(paging.cut(metrics)?, |metric| Ok(MetricView::from(&metric)))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/metrics/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(command): ApiJson<CreateMetric>,
) -> Result<Created<MetricView>, ApiError> {
    let view = app.on_catalog(&caller, move |tx, now| Ok(MetricView::from(&create_metric(tx, &command, now)?)));
    Ok(Created(view.await?))
}

/// `GET /api/metrics/{metric_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<MetricId>,
) -> Result<web::Json<MetricView>, ApiError> {
    let metric = app.read(&caller, move |tx, _| tx.metrics().get(id)).await?;
    Ok(web::Json(MetricView::from(&metric)))
}

/// `POST /api/metrics/{metric_id}/archive/`
async fn archive(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<MetricId>,
) -> Result<web::Json<MetricView>, ApiError> {
    let view = app.on_catalog(&caller, move |tx, now| Ok(MetricView::from(&archive_metric(tx, &id, now)?)));
    Ok(web::Json(view.await?))
}
