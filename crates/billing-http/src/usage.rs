//! How much of a metric a customer used, window by window.

use actix_web::http::header::{ACCEPT, VARY};
use actix_web::{HttpRequest, HttpResponse, web};
use billing_domain::period::Period;
use billing_domain::store::Transaction;
use billing_domain::usage::Usage;
use billing_domain::workflow::{MeasureUsage, MeasuredUsage, Moment, UsageSpan, UsageWindow, measure_usage};
use billing_domain::{FieldErrors, decimal};
use serde_json::Value;

use crate::app::App;
use crate::caller::Bearer;
use crate::endpoint::{Endpoint, Parameter, get};
use crate::error::ApiError;
use crate::metric_access::MetricBriefView;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{Described, FromJson, Instant, Number, Schema, Schemas, StartDate, UntilDate, view, words_of};
use crate::zone::IanaZone;

const PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Whose usage."),
    Parameter::required("metric_id", "Of what."),
    Parameter::required("start", "The first instant; a date alone begins at midnight in the time zone."),
    Parameter::optional(
        "end",
        "The first instant outside; a date alone ends with its day in the time zone, 23:59:59 with its day. \
         When missing, all up to and with the customer's now.",
    ),
    Parameter::optional(
        "window",
        "Divides the time by hour, day or month on the zone's clocks, at most 1,000 windows; not divided when missing.",
    ),
    Parameter::optional("timezone", "A name of the IANA database; the customer's own when missing."),
    Parameter::list(
        "subscription_filters",
        "Counts only events that have all of these properties: a JSON list of objects with property_name and value.",
    ),
];

/// The calls about usage.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/usage/", "Show usage by time; as CSV with `Accept: text/csv`", show)
            .for_bearers()
            .parameters(PARAMETERS)
            .answers::<UsageView>(200),
    ]
}

words_of! { UsageWindow }

/// The first instant, or a day.
#[derive(Clone, Copy, Debug)]
pub struct StartMoment(pub Moment);

/// The first instant behind the end, or a day.
#[derive(Clone, Copy, Debug)]
pub struct EndMoment(pub Moment);

/// Whether a text is a date without a time.
fn is_date(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == "YYYY-MM-DD".len())
}

impl FromJson for StartMoment {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        let is_date = is_date(&value);
        let StartDate(start) = StartDate::from_json(value)?;
        Ok(Self(if is_date { Moment::Midnight(start.date()) } else { Moment::Instant(start) }))
    }
}

impl FromJson for EndMoment {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        let is_date = is_date(&value);
        let UntilDate(end) = UntilDate::from_json(value)?;
        Ok(Self(if is_date { Moment::Midnight(end.date()) } else { Moment::Instant(end) }))
    }
}

impl Described for StartMoment {
    fn describe(schemas: &mut Schemas) -> Schema {
        StartDate::describe(schemas)
    }
}

impl Described for EndMoment {
    fn describe(schemas: &mut Schemas) -> Schema {
        UntilDate::describe(schemas)
    }
}

/// The question, out of a query string.
struct Question(MeasureUsage);

impl FromQuery for Question {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let ids = (query.required("customer_id"), query.required("metric_id"));
        let times = (query.required::<StartMoment>("start"), query.optional::<EndMoment>("end"));
        let ways = (query.optional("window"), query.optional("timezone"), query.filters());
        let read = match (ids, times, ways) {
            (
                (Some(customer), Some(metric)),
                (Some(StartMoment(start)), Some(end)),
                (Some(window), Some(timezone), Some(filters)),
            ) => {
                let end = end.map(|EndMoment(end)| end);
                let span = UsageSpan { customer, filters, start, end, window, timezone };
                Some(Self(MeasureUsage { metric, span }))
            }
            _ => None,
        };
        query.finish(read)
    }
}

view! {
    /// The usage of a metric.
    UsageView {
        /// Whose.
        customer_id: String,
        /// Of what.
        metric: MetricBriefView,
        /// In which zone windows begin.
        timezone: String,
        /// How the time is divided; null: it is not.
        window: Option<UsageWindow>,
        /// The whole time.
        total: UsageWindowView,
        /// The same, divided; the first and the last window may be cut short.
        windows: Vec<UsageWindowView>,
    }
}

view! {
    /// The usage of a span of time.
    UsageWindowView {
        /// The first instant inside.
        start: Instant,
        /// The first instant outside, where what follows starts.
        end: Instant,
        /// In units of the metric.
        quantity: Number,
        /// How many events it stands on.
        event_count: u64,
    }
}

impl From<&(Period, Usage)> for UsageWindowView {
    fn from((period, usage): &(Period, Usage)) -> Self {
        Self {
            start: Instant(period.start()),
            end: Instant(period.end()),
            quantity: (&usage.quantity).into(),
            event_count: usage.event_count,
        }
    }
}

impl UsageView {
    fn new(measured: &MeasuredUsage, window: Option<UsageWindow>) -> Self {
        Self {
            customer_id: measured.customer.id.as_str().to_owned(),
            metric: (&measured.metric).into(),
            timezone: measured.timezone.clone(),
            window,
            total: (&measured.total).into(),
            windows: measured.windows.iter().map(Into::into).collect(),
        }
    }

    /// The windows, one a line.
    fn csv(&self) -> Result<String, ApiError> {
        let mut text = "start,end,quantity,event_count\r\n".to_owned();
        let instant = |instant: &Instant| match serde_json::to_value(instant) {
            Ok(Value::String(text)) => Ok(text),
            other => Err(ApiError::internal(format!("an instant that is no text: {other:?}"))),
        };
        for UsageWindowView { start, end, quantity: Number(quantity), event_count } in &self.windows {
            let (start, end, quantity) = (instant(start)?, instant(end)?, decimal::plain(quantity));
            text.push_str(&format!("{start},{end},{quantity},{event_count}\r\n"));
        }
        Ok(text)
    }
}

/// Whether the client would rather have CSV.
fn wants_csv(request: &HttpRequest) -> bool {
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let types = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
    types.into_iter().any(|kind| kind.eq_ignore_ascii_case("text/csv"))
}

/// `GET /api/usage/`
async fn show(
    app: web::Data<App>,
    bearer: Bearer,
    ApiQuery(Question(question)): ApiQuery<Question>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let window = question.span.window;
    let customer = question.span.customer.clone();
    let measure = move |tx: &mut dyn Transaction, _| measure_usage(tx, &question, IanaZone::find);
    let measured = app.read_customer(&bearer, &customer, measure).await?;
    let view = UsageView::new(&measured, window);
    let mut answer = HttpResponse::Ok();
    answer.insert_header((VARY, "Accept"));
    if wants_csv(&request) {
        return Ok(answer.content_type("text/csv; charset=utf-8").body(view.csv()?));
    }
    Ok(answer.json(view))
}
