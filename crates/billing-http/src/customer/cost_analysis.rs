//! What a customer costs, against what it pays.

use actix_web::web;
use billing_domain::BigDecimal;
use billing_domain::customer::CustomerId;
use billing_domain::metric::Metric;
use billing_domain::workflow::{AnalyzeCosts, AnalyzedDay, CostAnalysis, analyze_costs};
use time::Date;

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::Parameter;
use crate::error::ApiError;
use crate::metric_access::MetricBriefView;
use crate::path::PathParam;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{CurrencyView, Day, Number, view};

/// What the call takes.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::required("start_date", "The first UTC day, `YYYY-MM-DD`."),
    Parameter::required("end_date", "The last UTC day, `YYYY-MM-DD`; at most 366 days."),
];

/// Which days, out of a query string.
pub struct Days {
    start: Date,
    end: Date,
}

impl FromQuery for Days {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let read = match (query.required("start_date"), query.required("end_date")) {
            (Some(Day(start)), Some(Day(end))) => Some(Self { start, end }),
            _ => None,
        };
        query.finish(read)
    }
}

view! {
    /// What a customer costs and pays.
    CostAnalysisView {
        /// Day by day.
        per_day: Vec<AnalyzedDayView>,
        /// The costs of all days.
        total_cost: Number,
        /// The revenue of all days.
        total_revenue: Number,
        /// The part of the revenue that is left after costs; 0 without revenue.
        profit_margin: Number,
        /// What comes on top of the costs, as a part of them; 0 without costs.
        markup: Number,
        /// What revenue is in: the customer's currency. Charges in others are left out.
        currency: CurrencyView,
    }
}

view! {
    /// One UTC day.
    AnalyzedDayView {
        /// Which.
        date: Day,
        /// The metrics that cost anything.
        cost_data: Vec<CostView>,
        /// What was earned, before tax.
        revenue: Number,
    }
}

view! {
    /// The cost by one metric.
    CostView {
        /// Which.
        metric: MetricBriefView,
        /// Its usage of the day.
        cost: Number,
    }
}

impl From<&AnalyzedDay> for AnalyzedDayView {
    fn from(day: &AnalyzedDay) -> Self {
        let cost = |(metric, cost): &(Metric, BigDecimal)| CostView { metric: metric.into(), cost: cost.into() };
        Self { date: Day(day.date), cost_data: day.costs.iter().map(cost).collect(), revenue: (&day.revenue).into() }
    }
}

impl From<&CostAnalysis> for CostAnalysisView {
    fn from(analysis: &CostAnalysis) -> Self {
        Self {
            per_day: analysis.days.iter().map(Into::into).collect(),
            total_cost: (&analysis.total_cost).into(),
            total_revenue: (&analysis.total_revenue).into(),
            profit_margin: Number(analysis.profit_margin()),
            markup: Number(analysis.markup()),
            currency: CurrencyView::from(&analysis.currency),
        }
    }
}

/// `GET /api/customers/{customer_id}/cost_analysis/`
pub async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(customer): PathParam<CustomerId>,
    ApiQuery(Days { start, end }): ApiQuery<Days>,
) -> Result<web::Json<CostAnalysisView>, ApiError> {
    let command = AnalyzeCosts { customer, start, end };
    let analysis = app.read(&caller, move |tx, now| analyze_costs(tx, &command, now)).await?;
    Ok(web::Json((&analysis).into()))
}
