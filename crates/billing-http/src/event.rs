//! The events that came in, as they are kept.

use std::collections::BTreeSet;

use actix_web::web;
use billing_domain::customer::CustomerId;
use billing_domain::decimal::plain;
use billing_domain::event::{EventState, KeptEvent, Properties};
use billing_domain::id::{CustomerKey, LineId, MetricId};
use billing_domain::metric::{Measured, Metric, MetricType};
use billing_domain::store::{EventFilter, EventWatch, Page, PageRequest, TailedEvents, Transaction};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::workflow::find_line_events;
use billing_domain::{Error, FieldCode, StoreError};
use serde_json::Value;
use time::OffsetDateTime;

use crate::app::App;
use crate::caller::Bearer;
use crate::endpoint::{Endpoint, Parameter, get};
use crate::error::ApiError;
use crate::list::{ListAnswer, Paging, map_page};
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{Instant, StartDate, UntilDate, view};

/// Most events on a page of those with one id: each is of a customer of its own, who is looked for.
const OWNERS_AT_ONCE: u32 = 50;

const PARAMETERS: &[Parameter] = &[
    Parameter::optional(
        "customer_id",
        "Whose events; the customer need not exist. Required without `line` or `idempotency_id`.",
    ),
    Parameter::optional(
        "line",
        "Only the events that this line of an invoice stands on, as it saw them; state is that of then.",
    ),
    Parameter::optional("event_name", "Only events of this name."),
    Parameter::optional(
        "idempotency_id",
        "Only the event with this id. Without `customer_id` or `line` everybody's events with it, in no order that means anything.",
    ),
    Parameter::optional("metric_id", "Only events that count for this metric."),
    Parameter::optional("state", "Only events of which this has become: counted, amended or voided."),
    Parameter::list("property", "Only events with this property, as `name=value`; several: with all of them."),
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
    customer: Option<CustomerId>,
    line: Option<LineId>,
    name: Option<String>,
    idempotency_id: Option<String>,
    metric: Option<MetricId>,
    state: Option<EventState>,
    properties: SubscriptionFilters,
    from: Option<OffsetDateTime>,
    to: Option<OffsetDateTime>,
}

impl FromQuery for Question {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let line = query.optional("line");
        let texts = query.optional("event_name").zip(query.optional("idempotency_id"));
        let customer = match (line, &texts) {
            (Some(None), Some((_, None))) => query.required("customer_id").map(Some),
            _ => query.optional("customer_id"),
        };
        let sorts = query.optional("metric_id").zip(query.optional("state")).zip(query.properties("property"));
        let times = query.optional("from").zip(query.optional("to"));
        let read = customer.zip(line).zip(texts).zip(sorts).zip(times);
        query.finish(read.map(Self::of))?.checked()
    }
}

/// What the parameters of a list of events are, in the order in which they are read.
type Parts = (
    (
        ((Option<CustomerId>, Option<LineId>), (Option<String>, Option<String>)),
        ((Option<MetricId>, Option<EventState>), SubscriptionFilters),
    ),
    (Option<StartDate>, Option<UntilDate>),
);

impl Question {
    fn of(((((customer, line), (name, idempotency_id)), ((metric, state), properties)), (from, to)): Parts) -> Self {
        let (from, to) = (from.map(|StartDate(from)| from), to.map(|UntilDate(to)| to));
        Self { customer, line, name, idempotency_id, metric, state, properties, from, to }
    }

    fn checked(self) -> Result<Self, ApiError> {
        if self.from.zip(self.to).is_some_and(|(from, to)| to < from) {
            return Err(ApiError::field("to", FieldCode::MinValue, "The end lies before the start."));
        }
        Ok(self)
    }

    /// The id of the events that are wanted of everybody; `None`: those of one customer are.
    fn id_of_anybody(&self) -> Option<&str> {
        self.idempotency_id.as_deref().filter(|_| self.customer.is_none() && self.line.is_none())
    }

    /// Which events are wanted; `None`: a line that none stand behind.
    fn filter(&self, tx: &mut dyn Transaction) -> Result<Option<EventFilter>, Error> {
        let organization = tx.organization();
        let customer = self.customer.as_ref().map(|customer| CustomerKey::derive(organization, customer));
        let metric = self.metric.map(|id| tx.metrics().get(id)).transpose();
        let metric = metric.map_err(|error| error.at_field("metric_id"))?;
        let wanted = match (self.line, customer) {
            (Some(line), _) => find_line_events(tx, line)?,
            (None, customer) => customer.map(EventFilter::of),
        };
        let is_of = |wanted: &EventFilter| {
            customer.is_none_or(|customer| wanted.customer == customer)
                && self.name.as_ref().zip(wanted.name.as_ref()).is_none_or(|(asked, known)| asked == known)
        };
        Ok(wanted.filter(is_of).map(|wanted| self.narrowed(wanted, metric)))
    }

    /// The same, less what the other parameters leave out.
    fn narrowed(&self, mut wanted: EventFilter, metric: Option<Metric>) -> EventFilter {
        wanted.properties.extend((!self.properties.is_empty()).then(|| self.properties.clone()));
        wanted.metrics.extend(metric);
        EventFilter {
            name: self.name.clone().or(wanted.name),
            idempotency_id: self.idempotency_id.clone(),
            state: self.state,
            from: self.from.max(wanted.from),
            to: [self.to, wanted.to].into_iter().flatten().min(),
            ..wanted
        }
    }

    /// A page of everybody's events with an id. A page may be shorter than its limit, as others are.
    fn list_of_anybody(
        &self,
        tx: &mut dyn Transaction,
        id: &str,
        page: &PageRequest,
    ) -> Result<Page<EventView>, Error> {
        let page = PageRequest { limit: page.limit.min(OWNERS_AT_ONCE), after: page.after.clone() };
        let metric = self.metric.map(|id| tx.metrics().get(id)).transpose();
        let metric = metric.map_err(|error| error.at_field("metric_id"))?;
        let organization = tx.organization();
        let owner = |kept: &KeptEvent| CustomerKey::derive(organization, &kept.event.customer);
        let Page { mut items, next } = tx.events().list_with_id(id, &page)?;
        items.retain(|kept| {
            let wanted = self.narrowed(EventFilter::of(owner(kept)), metric.clone());
            wanted.takes(&kept.event) && self.state.is_none_or(|state| kept.state == state)
        });
        let metrics = tx.metrics().list()?;
        map_page(Page { items, next }, |event| {
            let has_customer = is_there(tx, owner(&event))?;
            Ok(EventView::new(event, &metrics, has_customer))
        })
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

/// Whether there is a customer with this key.
fn is_there(tx: &mut dyn Transaction, customer: CustomerKey) -> Result<bool, Error> {
    match tx.customers().get(customer) {
        Err(Error::NotFound(_)) => Ok(false),
        found => found.map(|_| true),
    }
}

/// Events that came in, the latest first, as the call would list them, with the names of the metrics that they count for. Of those that count for the metric
/// of the watch also what each brings to it; others are left out there.
///
/// # Errors
/// Those of the store.
pub fn tail_rows(
    tx: &mut dyn Transaction,
    watch: &EventWatch,
    events: &TailedEvents,
    known: &mut BTreeSet<CustomerKey>,
) -> Result<Vec<Value>, Error> {
    let (organization, metrics) = (tx.organization(), tx.metrics().list()?);
    let mut strangers = BTreeSet::new();
    let mut rows = Vec::new();
    for event in events.events().rev() {
        let customer = CustomerKey::derive(organization, &event.customer);
        if !known.contains(&customer) && !strangers.contains(&customer) {
            let joined = if is_there(tx, customer)? { &mut *known } else { &mut strangers };
            joined.insert(customer);
        }
        let kept = KeptEvent { event: event.clone(), state: EventState::Counted };
        let view = EventView::new(kept, &metrics, known.contains(&customer));
        if watch.metric.is_some_and(|metric| !view.counts_for.contains(&metric)) {
            continue;
        }
        let names = metrics.iter().filter(|metric| view.counts_for.contains(&metric.id)).map(|metric| &*metric.name);
        let names: Vec<&str> = names.collect();
        let watched = metrics.iter().find(|metric| watch.metric == Some(metric.id));
        let text = serde_json::to_string(&view).map_err(|error| StoreError::Internal(error.to_string()))?;
        let mut row: Value = serde_json::from_str(&text).map_err(|error| StoreError::Internal(error.to_string()))?;
        row["metric_names"] = names.into();
        row["value"] = watched.and_then(|metric| metric.measured(event)).map(brought).into();
        rows.push(row);
    }
    Ok(rows)
}

/// What an event brings to a metric, as text.
fn brought(measured: Measured) -> String {
    match measured {
        Measured::Event => "1".to_owned(),
        Measured::Number(number) => plain(&number),
        Measured::Text(text) => text,
    }
}

/// `GET /api/events/`
async fn list(
    app: web::Data<App>,
    bearer: Bearer,
    ApiQuery(question): ApiQuery<Question>,
    paging: Paging,
) -> Result<ListAnswer<EventView>, ApiError> {
    let page = app.read(&bearer, move |tx, _| {
        if let Some(id) = question.id_of_anybody() {
            return question.list_of_anybody(tx, id, &paging.0);
        }
        let Some(filter) = question.filter(tx)? else { return Ok(Page { items: Vec::new(), next: None }) };
        let page = tx.events().list(&filter, &paging.0)?;
        let metrics = tx.metrics().list()?;
        let has_customer = is_there(tx, filter.customer)?;
        map_page(page, |event| Ok(EventView::new(event, &metrics, has_customer)))
    });
    Ok(ListAnswer(page.await?))
}
