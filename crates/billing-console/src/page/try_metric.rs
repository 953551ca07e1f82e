//! Trying the query of a custom metric on a customer's events, before there is such a metric.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::usage;
use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::route::Outcome;
use crate::visit::Visit;
use crate::{show, text};

const METRICS: &str = "/console/metrics/";
/// What a query that was typed first may look like.
const FIRST_QUERY: &str =
    "SELECT COUNT(*) AS usage_qty\nFROM events\nWHERE time_created >= start_date AND time_created <= end_date";
/// What is told beside the form: bad fields, and a query that makes no number of these events.
const TOLD: [u16; 3] = [400, 409, 422];

const QUERY: Field = Field::new("custom_sql", text::QUERY, Input::Lines).required().hint(text::QUERY_HINT);
const SPAN: [Field; 3] = [
    Field::new("customer_id", text::CUSTOMER, Input::Text(200)).required().hint(text::TRIED_ON_HINT),
    Field::new("start", text::FROM, Input::Day).required(),
    Field::new("end", text::UNTIL, Input::Day).hint(text::TRIED_UNTIL_HINT),
];

/// `GET /console/metrics/try/`
///
/// # Errors
/// None.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    Ok(page(visit, FIRST_QUERY, &html! {}))
}

/// `POST /console/metrics/try/`
///
/// # Errors
/// Those of the call, but for what is wrong with what was typed: that is shown beside it.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let query = visit.form.get(QUERY.name).unwrap_or_default();
    let mut asked = body(visit, &SPAN)?;
    asked.insert("window".to_owned(), "day".into());
    asked.insert("metric".to_owned(), json!({"metric_type": "custom", "custom_sql": query}));
    let result = match visit.ask_with("/api/metrics/preview/", asked).await {
        Ok(preview) => shown(&preview),
        Err(failure) if TOLD.contains(&failure.status) => {
            html! { div.notice.bad role="alert" { p.long { (failure.detail) } } }
        }
        Err(failure) => return Err(failure),
    };
    Ok(page(visit, query, &result))
}

fn page(visit: &Visit<'_>, query: &str, result: &Markup) -> Outcome {
    let typed = |field: &Field| (*field, visit.form.get(field.name).unwrap_or_default().to_owned());
    let fields: Vec<_> = [(QUERY, query.to_owned())].into_iter().chain(SPAN.iter().map(typed)).collect();
    let form = Form { fields: &fields, button: text::TRY_QUERY, is_danger: false, back: (METRICS, text::BACK) };
    let content = html! {
        nav.path { a href=(METRICS) { (text::METRICS) } }
        h1 { (text::TRY_A_QUERY) }
        p { (text::TRY_QUERY_EXPLAINED) }
        (result)
        (form.render(visit))
    };
    Outcome::Page(text::TRY_A_QUERY.to_owned(), content)
}

/// What came of it: in all, and day by day.
fn shown(preview: &Value) -> Markup {
    let total = &preview["total"];
    html! {
        section id="result" {
            h2 { (text::QUERY_RESULT) }
            div.cards.small {
                div.card { h2 { (text::QUANTITY) } p.figure { (show::number(&total["quantity"])) } }
                div.card { h2 { (text::EVENTS) } p.figure { (show::number(&total["event_count"])) } }
            }
            p.quiet { (text::QUERY_RESULT_HINT) }
            (usage::table(show::items(&preview["windows"])))
        }
    }
}
