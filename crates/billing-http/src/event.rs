//! The events that came in, as they are kept.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use billing_domain::customer::CustomerId;
use billing_domain::event::{EventState, KeptEvent, Properties};
use billing_domain::id::{CustomerKey, MetricId};
use billing_domain::metric::{Metric, MetricType};
use billing_domain::store::EventFilter;
use billing_domain::{Error, FieldCode};
use time::OffsetDateTime;

use crate::app::App;
use crate::caller::Bearer;
use crate::endpoint::{Endpoint, Parameter, get};
use crate::error::ApiError;
use crate::list::{ListAnswer, Paging, map_page};
use crate::query::Query;
use crate::wire::{Instant, StartDate, UntilDate, view};

const PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Whose events; the customer need not exist."),
    Parameter::optional("event_name", "Only events of this name."),
    Parameter::optional("idempotency_id", "Only the event with this id."),
    Parameter::optional("from", "The first instant that an event may have happened at; a date is its midnight UTC."),
    Parameter::optional("to", "The first instant behind them; a date ends with its day."),
];

/// The calls about events.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/events/", "List a customer's events, newest first", list)
            .for_bearers()
            .parameters(PARAMETERS)
            .lists::<EventView>(),
    ]
}

/// Which events, out of a query string.
struct Question {
    customer: CustomerId,
    name: Option<String>,
    idempotency_id: Option<String>,
    from: Option<OffsetDateTime>,
    to: Option<OffsetDateTime>,
}

impl FromRequest for Question {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Query::parse(request.query_string()).and_then(|mut query| {
            let customer = query.required("customer_id");
            let texts = query.optional("event_name").zip(query.optional("idempotency_id"));
            let times = query.optional("from").zip(query.optional("to"));
            let read = customer.zip(texts).zip(times).map(|((customer, (name, idempotency_id)), (from, to))| {
                let (from, to) = (from.map(|StartDate(from)| from), to.map(|UntilDate(to)| to));
                Self { customer, name, idempotency_id, from, to }
            });
            query.finish(read)?.checked()
        }))
    }
}

impl Question {
    fn checked(self) -> Result<Self, ApiError> {
        if self.from.zip(self.to).is_some_and(|(from, to)| to < from) {
            return Err(ApiError::field("to", FieldCode::MinValue, "The end lies before the start."));
        }
        Ok(self)
    }

    fn filter(&self, customer: CustomerKey) -> EventFilter {
        let (name, idempotency_id) = (self.name.clone(), self.idempotency_id.clone());
        EventFilter { customer, name, idempotency_id, from: self.from, to: self.to }
    }
}

view! {
    /// An event.
    EventView {
        /// Whose.
        customer_id: String,
        /// What happened.
        event_name: String,
        /// The sender's id for it.
        idempotency_id: String,
        /// When it happened.
        time_created: Instant,
        /// Its properties as they were sent, or amended.
        properties: Properties,
        /// Whether it counts as it came, was amended, or was voided: then it counts for nothing.
        state: EventState,
        /// The metrics that it counts for, as they are now; none where its customer or its name is not known. Custom metrics are not
        /// among them: their queries look at the events of all names.
        counts_for: Vec<MetricId>,
        /// The metrics of its name that it does not count for, because their property is missing or cannot be used.
        unusable_for: Vec<MetricId>,
    }
}

impl EventView {
    fn new(KeptEvent { event, state }: KeptEvent, metrics: &[Metric], has_customer: bool) -> Self {
        let counts = has_customer && state != EventState::Voided;
        let is_of_name = |metric: &&Metric| {
            let is_custom = metric.measure.metric_type() == MetricType::Custom;
            !is_custom && metric.event_name == event.name
        };
        let of_name = metrics.iter().filter(is_of_name);
        let unusable = of_name.clone().filter(|metric| metric.measure.measured(&event).is_none());
        let counting = of_name.filter(|metric| counts && metric.measured(&event).is_some());
        Self {
            counts_for: counting.map(|metric| metric.id).collect(),
            unusable_for: unusable.map(|metric| metric.id).collect(),
            customer_id: event.customer.as_str().to_owned(),
            event_name: event.name,
            idempotency_id: event.idempotency_id,
            time_created: Instant(event.time_created),
            properties: event.properties,
            state,
        }
    }
}

/// `GET /api/events/`
async fn list(
    app: web::Data<App>,
    bearer: Bearer,
    question: Question,
    paging: Paging,
) -> Result<ListAnswer<EventView>, ApiError> {
    let page = app.read(&bearer, move |tx, _| {
        let customer = CustomerKey::derive(tx.organization(), &question.customer);
        let page = tx.events().list(&question.filter(customer), &paging.0)?;
        let metrics = tx.metrics().list()?;
        let has_customer = match tx.customers().get(customer) {
            Err(Error::NotFound(_)) => false,
            found => found.map(|_| true)?,
        };
        map_page(page, |event| Ok(EventView::new(event, &metrics, has_customer)))
    });
    Ok(ListAnswer(page.await?))
}
