//! What became of one event.

use actix_web::web;
use billing_domain::Error;
use billing_domain::customer::CustomerId;
use billing_domain::event::{EventCorrection, EventState, EventVersion, Properties};
use billing_domain::id::{EventCorrectionId, InvoiceId, LineId, MetricId, SubscriptionId};
use billing_domain::workflow::{
    BilledOn, CountedFor, CountsForNothing, EventReceipt, ReadEventReceipt, read_event_receipt,
};
use time::OffsetDateTime;

use crate::app::App;
use crate::caller::Bearer;
use crate::endpoint::{Endpoint, Parameter, get};
use crate::error::ApiError;
use crate::path::PathParam;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{Instant, Number, view, words_of};

words_of! { CountsForNothing }

const PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Whose event; the customer need not exist."),
    Parameter::optional(
        "time_created",
        "When it happened, where the id was used in several months; else the last one.",
    ),
];

/// The call about one event.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get(
            "/api/events/{idempotency_id}/",
            "Say what became of an event: what it counts for, where it was billed",
            read,
        )
        .for_bearers()
        .parameters(PARAMETERS)
        .answers::<EventReceiptView>(200),
    ]
}

view! {
    /// What became of an event.
    EventReceiptView {
        /// Whose.
        customer_id: String,
        /// The sender's id for it.
        idempotency_id: String,
        /// What happened.
        event_name: String,
        /// When it happened, as it counts now; of a voided one as it counted last.
        time_created: Instant,
        /// Its properties, as they count now; of a voided one as they counted last.
        properties: Properties,
        /// Whether it counts as it came, was amended, or was voided: then it counts for nothing.
        state: EventState,
        /// When it was stored, by the clock of the service.
        received_at: Instant,
        /// Its arrival number, by which the trace of a line says what it saw.
        arrival: u64,
        /// What was corrected of it, oldest first.
        corrections: Vec<EventCorrectionView>,
        /// The metrics that it counts for now, custom ones too, whose queries may look at it.
        counts_for: Vec<CountedForView>,
        /// Why `counts_for` is empty; null where it is not.
        counts_for_nothing: Option<CountsForNothing>,
        /// The lines whose usage it is part of, oldest first. The first of a period billed it; later ones price the period again and bill
        /// the difference.
        billed_on: Vec<BilledOnView>,
        /// The lines that came without it where the line before had it: a correction or a switch of plans took it back there.
        taken_back_on: Vec<BilledOnView>,
        /// When the customer's other events with this id happened: an id may be used again once the window for duplicates is over.
        others: Vec<Instant>,
    }
}

view! {
    /// A correction of an event.
    EventCorrectionView {
        /// Its id.
        event_correction_id: EventCorrectionId,
        /// What became of the event by it.
        state: EventState,
        /// When, in the customer's own time.
        corrected_at: Instant,
        /// Who: the prefix of an API key, or the id of a user.
        by: Option<String>,
        /// Why, as they said.
        reason: Option<String>,
        /// The event's arrival number since.
        arrival: Option<u64>,
        /// The event as it counted before.
        before: EventFactsView,
        /// The event as it counts since; null where it was voided.
        after: Option<EventFactsView>,
    }
}

view! {
    /// What an event says.
    EventFactsView {
        /// When it happened.
        time_created: Instant,
        /// Its properties.
        properties: Properties,
    }
}

view! {
    /// A metric that an event counts for.
    CountedForView {
        /// Which.
        metric_id: MetricId,
        /// The customer's subscriptions that bill it; empty: it is measured, and nobody is charged for it.
        subscription_ids: Vec<SubscriptionId>,
    }
}

view! {
    /// A line of an invoice that has to do with an event.
    BilledOnView {
        /// The line.
        line_id: LineId,
        /// Its invoice.
        invoice_id: InvoiceId,
        /// The number of the invoice.
        invoice_number: String,
        /// When the invoice was issued.
        issue_date: Instant,
        /// Whether the invoice was voided since.
        voided: bool,
        /// What the line is for.
        name: String,
        /// What the line comes to.
        amount: Number,
        /// The metric that the event counts for there.
        metric_id: MetricId,
        /// The event as the line saw it; where it was taken back, as it had been billed.
        event: EventFactsView,
    }
}

impl EventFactsView {
    fn new(event: billing_domain::event::Event) -> Self {
        Self { time_created: Instant(event.time_created), properties: event.properties }
    }
}

impl EventCorrectionView {
    fn new(correction: EventCorrection, made: Option<&EventVersion>) -> Self {
        Self {
            event_correction_id: correction.id,
            state: correction.state(),
            corrected_at: Instant(correction.at),
            by: correction.by,
            reason: correction.reason,
            arrival: made.map(|version| version.arrival),
            before: EventFactsView::new(correction.before),
            after: correction.after.map(EventFactsView::new),
        }
    }
}

impl From<CountedFor> for CountedForView {
    fn from(counted: CountedFor) -> Self {
        Self { metric_id: counted.metric, subscription_ids: counted.subscriptions }
    }
}

impl From<BilledOn> for BilledOnView {
    fn from(billed: BilledOn) -> Self {
        Self {
            line_id: billed.line,
            invoice_id: billed.invoice,
            invoice_number: billed.number,
            issue_date: Instant(billed.issued_at),
            voided: billed.is_voided,
            name: billed.name,
            amount: (&billed.amount).into(),
            metric_id: billed.metric,
            event: EventFactsView::new(billed.event),
        }
    }
}

impl EventReceiptView {
    fn new(receipt: EventReceipt) -> Result<Self, Error> {
        let EventReceipt { history, counts_for, counts_for_nothing, billed_on, taken_back_on, others } = receipt;
        let missing = || billing_domain::StoreError::Internal("an event that was never anything".to_owned());
        let last = history.versions.last().ok_or_else(missing)?.clone();
        // What a correction made is the next version, if anything.
        let made = history.versions.iter().skip(1).map(Some).chain(std::iter::repeat(None));
        let corrections = history.corrections.iter().cloned().zip(made);
        Ok(Self {
            corrections: corrections.map(|(correction, made)| EventCorrectionView::new(correction, made)).collect(),
            state: history.state,
            received_at: Instant(history.received_at),
            arrival: last.arrival,
            customer_id: last.event.customer.as_str().to_owned(),
            event_name: last.event.name,
            idempotency_id: last.event.idempotency_id,
            time_created: Instant(last.event.time_created),
            properties: last.event.properties,
            counts_for: counts_for.into_iter().map(Into::into).collect(),
            counts_for_nothing,
            billed_on: billed_on.into_iter().map(Into::into).collect(),
            taken_back_on: taken_back_on.into_iter().map(Into::into).collect(),
            others: others.into_iter().map(Instant).collect(),
        })
    }
}

/// Of which of a customer's events with an id, out of a query string.
struct Question {
    customer: CustomerId,
    time_created: Option<OffsetDateTime>,
}

impl FromQuery for Question {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let read = query.required("customer_id").zip(query.optional("time_created"));
        let read = read.map(|(customer, time)| Self { customer, time_created: time.map(|Instant(at)| at) });
        query.finish(read)
    }
}

/// `GET /api/events/{idempotency_id}/`
async fn read(
    app: web::Data<App>,
    bearer: Bearer,
    PathParam(idempotency_id): PathParam<String>,
    ApiQuery(question): ApiQuery<Question>,
) -> Result<web::Json<EventReceiptView>, ApiError> {
    let Question { customer, time_created } = question;
    let command = ReadEventReceipt { customer, idempotency_id, time_created };
    let view = app.read(&bearer, move |tx, now| EventReceiptView::new(read_event_receipt(tx, &command, now)?));
    Ok(web::Json(view.await?))
}
