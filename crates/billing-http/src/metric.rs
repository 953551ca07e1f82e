//! Metrics: what is measured.

use actix_web::web;
use billing_domain::id::MetricId;
use billing_domain::metric::{
    Aggregation, AggregationKind, CategoricalFilter, CategoricalOperator, Metric, MetricFilters, NumericFilter,
    NumericOperator,
};
use billing_domain::workflow::{CreateMetric, archive_metric, create_metric};
use billing_domain::{FieldCode, FieldErrors};
use serde_json::Value;

use crate::answer::Created;
use crate::app::App;
use crate::auth::Caller;
use crate::endpoint::{Endpoint, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::wire::{Number, Word, body, read_through, view, words_of};

/// The calls about metrics.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/metrics/", "List metrics", list).answers::<Vec<MetricView>>(200),
        post("/api/metrics/", "Create a metric", create).takes::<CreateMetric>().answers::<MetricView>(201),
        get("/api/metrics/{metric_id}/", "Show a metric", show).answers::<MetricView>(200),
        post("/api/metrics/{metric_id}/archive/", "Archive a metric that no plan version uses", archive)
            .answers::<MetricView>(200),
    ]
}

/// How a metric looks at its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Each on its own.
    Counter,
}

impl MetricType {
    const ALL: &'static [Self] = &[Self::Counter];

    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
        }
    }
}

words_of! { MetricType, AggregationKind, NumericOperator, CategoricalOperator }

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
        /// The events that count.
        required event_name: String,
        /// How it looks at them; `counter` when missing.
        optional metric_type: MetricType,
        /// What it makes of them; `count` when missing.
        optional aggregation_type: AggregationKind,
        /// The event property that is aggregated; needed for all but a count, which ignores it.
        optional property_name: String,
        /// Whether it tracks the organization's own costs.
        optional is_cost_metric: bool,
        /// Not supported yet: leave it out.
        optional event_type: Value,
        /// Not supported yet: leave it out.
        optional granularity: Value,
        /// Not supported yet: leave it out.
        optional proration: Value,
        /// Not supported yet: leave it out.
        optional custom_sql: Value,
        /// Which events count, by text; at most 20, and all must let an event pass.
        optional categorical_filters: Vec<CategoricalFilter>,
        /// Which events count, by number; at most 20, and all must let an event pass.
        optional numeric_filters: Vec<NumericFilter>,
    }
}

impl CreateMetricBody {
    fn read(self) -> Result<CreateMetric, FieldErrors> {
        let mut errors = FieldErrors::default();
        match self.metric_type {
            None | Some(MetricType::Counter) => {}
        }
        let unsupported = [
            ("event_type", &self.event_type),
            ("granularity", &self.granularity),
            ("proration", &self.proration),
            ("custom_sql", &self.custom_sql),
        ];
        for (attr, value) in unsupported {
            if value.as_ref().is_some_and(|value| !is_empty(value)) {
                errors.push(attr, FieldCode::InvalidChoice, "This field is not supported yet; leave it out.");
            }
        }
        let kind = self.aggregation_type.unwrap_or(AggregationKind::Count);
        let aggregation = kind.of(self.property_name.filter(|name| !name.is_empty())).unwrap_or_else(|| {
            let detail = format!("An aggregation_type of {} needs a property.", kind.as_str());
            errors.push("property_name", FieldCode::Required, detail);
            Aggregation::Count
        });
        let filters = MetricFilters {
            numeric_filters: self.numeric_filters.unwrap_or_default(),
            categorical_filters: self.categorical_filters.unwrap_or_default(),
        };
        let command = CreateMetric {
            name: self.metric_name,
            event_name: self.event_name,
            aggregation,
            filters,
            is_cost_metric: self.is_cost_metric.unwrap_or(false),
        };
        errors.keep_all("", command.check());
        errors.finish(command)
    }
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

/// Whether a value says nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

view! {
    /// Lets an event count by a number in it.
    NumericFilterView {
        /// The property.
        property_name: String,
        /// How it must compare.
        operator: Word<NumericOperator>,
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
        operator: Word<CategoricalOperator>,
        /// The texts.
        comparison_value: Vec<String>,
    }
}

impl From<&NumericFilter> for NumericFilterView {
    fn from(filter: &NumericFilter) -> Self {
        Self {
            property_name: filter.property_name.clone(),
            operator: Word(filter.operator),
            comparison_value: (&filter.comparison_value).into(),
        }
    }
}

impl From<&CategoricalFilter> for CategoricalFilterView {
    fn from(filter: &CategoricalFilter) -> Self {
        Self {
            property_name: filter.property_name.clone(),
            operator: Word(filter.operator),
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
        metric_type: Word<MetricType>,
        /// What it makes of them.
        aggregation_type: Word<AggregationKind>,
        /// The event property that is aggregated.
        property_name: Option<String>,
        /// For gauges only.
        event_type: Option<String>,
        /// For gauges and rates only.
        granularity: Option<String>,
        /// For gauges only.
        proration: Option<String>,
        /// For custom metrics only.
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
        Self {
            metric_id: metric.id,
            metric_name: metric.name.clone(),
            event_name: metric.event_name.clone(),
            metric_type: Word(MetricType::Counter),
            aggregation_type: Word(metric.aggregation.kind()),
            property_name: metric.aggregation.property_name().map(str::to_owned),
            event_type: None,
            granularity: None,
            proration: None,
            custom_sql: None,
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
