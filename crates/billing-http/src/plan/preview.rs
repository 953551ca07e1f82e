//! What a plan comes to that nobody has made. Nothing is kept of it.

use actix_web::web;
use billing_domain::FieldErrors;
use billing_domain::id::MetricId;
use billing_domain::invoice::{LineItem, Trace};
use billing_domain::plan::Component;
use billing_domain::workflow::{CreatePlan, PlanPreview, PreviewPlan, preview_plan};
use serde_json::Value;

use super::version_view::ComponentView;
use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::invoice::ExplainedAdjustmentView;
use crate::json::ApiJson;
use crate::wire::{CurrencyView, Instant, Number, body, read_through, view};

body! {
    /// A plan to be priced without being made.
    PreviewPlanBody {
        /// The plan, as `POST /api/plans/` takes it; with a version.
        required plan: CreatePlan,
        /// How much is used; nothing of metrics that are not named.
        optional usage: Vec<UsedQuantityBody>,
    }
}

impl PreviewPlanBody {
    fn read(self) -> Result<PreviewPlan, FieldErrors> {
        let usage = self.usage.unwrap_or_default().into_iter().map(|used| (used.metric_id, used.quantity.0));
        Ok(PreviewPlan { plan: self.plan, usage: usage.collect() })
    }
}

body! {
    /// How much of a metric is used.
    UsedQuantityBody {
        /// The metric, of a component of the version.
        required metric_id: MetricId,
        /// How much in each of the component's reset intervals.
        required quantity: Number,
    }
}

read_through! { PreviewPlan = PreviewPlanBody; }

view! {
    /// What a whole period of a plan comes to that nobody has made.
    PlanPreviewView {
        /// What everything in it is priced in.
        currency: CurrencyView,
        /// The first instant of the period, which begins today.
        start_date: Instant,
        /// The last instant of the period: a month where the plan has no duration.
        end_date: Instant,
        /// The sum of the lines: what the invoices of the period come to before tax and credits.
        amount: Number,
        /// Each charge and reset interval.
        line_items: Vec<PreviewedLineView>,
        /// What the version charges by usage, as it would be shown once it is made.
        components: Vec<ComponentView>,
    }
}

view! {
    /// One charge of the period in one reset interval, and how it comes about.
    PreviewedLineView {
        /// What it is for.
        name: String,
        /// The recurring charge that it is for.
        charge_name: Option<String>,
        /// The metric that it is for.
        metric_id: Option<MetricId>,
        /// The first instant that it is for.
        start_date: Instant,
        /// The last instant that it is for.
        end_date: Instant,
        /// Units charged for.
        quantity: Option<Number>,
        /// Price before adjustments.
        base: Number,
        /// What the version's price adjustment adds to it.
        adjustments: Vec<ExplainedAdjustmentView>,
        /// Base and adjustments.
        amount: Number,
        /// The metric, tiers, fractions and rounding behind the base, as the explanation of an invoice has them; without events, of
        /// which there are none.
        trace: Value,
    }
}

impl PlanPreviewView {
    fn new(preview: &PlanPreview) -> Result<Self, ApiError> {
        let currency = CurrencyView::from(&preview.currency);
        let shown = |component: &Component| {
            let metric = preview.metrics.get(&component.metric);
            metric.map(|metric| ComponentView::new(component, metric, &currency))
        };
        Ok(Self {
            components: preview.version.components.iter().filter_map(shown).collect(),
            start_date: Instant(preview.period.start()),
            end_date: Instant(preview.period.last_instant()),
            amount: preview.amount().into(),
            currency,
            line_items: preview.lines.iter().map(PreviewedLineView::new).collect::<Result<_, _>>()?,
        })
    }
}

impl PreviewedLineView {
    fn new(line: &LineItem) -> Result<Self, ApiError> {
        let metric = match &line.trace {
            Trace::UsageCharge { metric, .. } | Trace::PrepaidUsageCharge { metric, .. } => Some(metric.metric_id),
            _ => None,
        };
        let mut trace = serde_json::to_value(&line.trace).map_err(ApiError::internal)?;
        if let Some(fields) = trace.as_object_mut() {
            fields.retain(|name, _| name != "event_count" && name != "last_arrival");
        }
        Ok(Self {
            name: line.name.clone(),
            charge_name: line.charge_name().map(str::to_owned),
            metric_id: metric,
            start_date: Instant(line.period.start()),
            end_date: Instant(line.period.last_instant()),
            quantity: line.quantity.as_ref().map(Into::into),
            base: (&line.base).into(),
            adjustments: line.adjustments.iter().map(ExplainedAdjustmentView::new).collect::<Result<_, _>>()?,
            amount: (&line.amount).into(),
            trace,
        })
    }
}

/// `POST /api/plans/preview/`
pub async fn show(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(command): ApiJson<PreviewPlan>,
) -> Result<web::Json<PlanPreviewView>, ApiError> {
    let preview = app.read(&caller, move |tx, now| preview_plan(tx, &command, now)).await?;
    Ok(web::Json(PlanPreviewView::new(&preview)?))
}
