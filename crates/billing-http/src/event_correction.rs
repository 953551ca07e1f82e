//! Events that were wrong: amended, or voided.

use actix_web::web;
use billing_domain::customer::CustomerId;
use billing_domain::event::{CORRECTIONS_MAX, EventState, KeptEvent, Properties};
use billing_domain::id::CustomerKey;
use billing_domain::job::{CorrectionOrder, EventsChange};
use billing_domain::workflow::{CorrectEvents, EventChange, WantedCorrection, correct_events, order_corrections};
use billing_domain::{FieldCode, FieldErrors, text};

use crate::app::App;
use crate::caller::Caller;
use crate::correction_preview::CorrectionPreviewView;
use crate::endpoint::{Endpoint, post};
use crate::error::ApiError;
use crate::event_selection::EventSelectionBody;
use crate::job::JobView;
use crate::json::ApiJson;
use crate::wire::{FreeForm, Instant, body, read_through, view, words_of};

words_of! { EventState }

/// The calls that correct events.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        post("/api/events/void/", "Void events of a customer: they count for nothing any more", void)
            .takes::<Voids>()
            .leaves_get()
            .answers::<CorrectedEventsView>(200),
        post("/api/events/amend/", "Amend the time or the properties of a customer's events", amend)
            .takes::<Amendments>()
            .leaves_get()
            .answers::<CorrectedEventsView>(200),
    ]
}

body! {
    /// Which events never happened.
    VoidEventsBody {
        /// Whose; not needed with a filter.
        optional customer_id: CustomerId,
        /// Their ids: 1 to 1,000.
        optional idempotency_ids: Vec<String>,
        /// In their place which events, however many: a job does it.
        optional filter: EventSelectionBody,
        /// With a filter: corrects nothing, and says how many events of how many customers there are and what it would change in money.
        optional dry_run: bool,
        /// Why.
        optional reason: String,
        /// Whether events older than the acceptance window are among them: what was billed for their time is looked at again.
        optional beyond_window: bool,
    }
}

body! {
    /// What an event really was.
    AmendedEventBody {
        /// Its id, which stays.
        required idempotency_id: String,
        /// When it happened; as it was when missing.
        optional time_created: Instant,
        /// Its properties, all of them; as they were when missing.
        optional properties: FreeForm,
    }
}

body! {
    /// Which events were otherwise.
    AmendEventsBody {
        /// Whose; not needed with a filter.
        optional customer_id: CustomerId,
        /// 1 to 1,000.
        optional events: Vec<AmendedEventBody>,
        /// In their place which events, however many: a job does it.
        optional filter: EventSelectionBody,
        /// With a filter: corrects nothing, and says how many events of how many customers there are and what it would change in money.
        optional dry_run: bool,
        /// With a filter: the properties that each of the events is given; those of its own that are not among them stay.
        optional properties: FreeForm,
        /// Why.
        optional reason: String,
        /// Whether events older than the acceptance window are among them: what was billed for their time is looked at again.
        optional beyond_window: bool,
    }
}

/// Which events to correct, and how.
#[derive(Clone, Debug)]
enum Wanted {
    /// These.
    Named(Corrections),
    /// All that match; or only a look at what that would change.
    Matching(CorrectionOrder, bool),
}

/// Which events of whom to correct.
#[derive(Clone, Debug)]
struct Corrections {
    customer: CustomerId,
    wanted: Vec<WantedCorrection>,
    reason: Option<String>,
    beyond_window: bool,
}

/// Events to be voided.
#[derive(Clone, Debug)]
pub struct Voids(Wanted);

/// Events to be amended.
#[derive(Clone, Debug)]
pub struct Amendments(Wanted);

impl Corrections {
    fn new(
        customer: Option<CustomerId>,
        (attr, wanted): (&str, Vec<WantedCorrection>),
        reason: Option<String>,
        beyond_window: Option<bool>,
    ) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        if customer.is_none() {
            errors.push("customer_id", FieldCode::Required, "This field is required.");
        }
        if !(1..=CORRECTIONS_MAX).contains(&wanted.len()) {
            errors.push(attr, FieldCode::Invalid, format!("Name 1 to {CORRECTIONS_MAX} events."));
        }
        let checked = reason.as_deref().map_or(Ok(()), |reason| text::check(reason, text::NAME_CHARACTERS_MAX));
        errors.keep("reason", checked);
        errors.finish(())?;
        let customer = customer.ok_or_else(FieldErrors::default)?;
        Ok(Self { customer, wanted, reason, beyond_window: beyond_window.unwrap_or_default() })
    }
}

/// The order to change all events of a filter, of which the customer may be said beside it.
fn matching(
    (customer, filter): (Option<CustomerId>, EventSelectionBody),
    (change, dry_run): (EventsChange, Option<bool>),
    reason: Option<String>,
    beyond_window: Option<bool>,
) -> Result<Wanted, FieldErrors> {
    let mut errors = FieldErrors::default();
    let checked = reason.as_deref().map_or(Ok(()), |reason| text::check(reason, text::NAME_CHARACTERS_MAX));
    errors.keep("reason", checked);
    let selection = errors.keep_all("filter", filter.selection(customer)).unwrap_or_default();
    let beyond_window = beyond_window.unwrap_or_default();
    let order = CorrectionOrder { selection, change, beyond_window, by: None, reason };
    errors.finish(Wanted::Matching(order, dry_run.unwrap_or_default()))
}

/// Events are named or a filter is: both, or neither, says nothing.
fn one_of(names: &str, (has_names, has_filter): (bool, bool)) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::default();
    match (has_names, has_filter) {
        (true, true) => errors.push("filter", FieldCode::NotAllowedTogether, format!("Give {names} or a filter.")),
        (false, false) => errors.push(names, FieldCode::Required, "This field is required, or a filter."),
        _ => {}
    }
    errors.finish(())
}

fn dry_run_is_of_a_filter(dry_run: Option<bool>, has_filter: bool) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::default();
    if dry_run == Some(true) && !has_filter {
        errors.push("dry_run", FieldCode::NotAllowedTogether, "A dry run is of a filter: name no events.");
    }
    errors.finish(())
}

impl VoidEventsBody {
    fn read(self) -> Result<Voids, FieldErrors> {
        one_of("idempotency_ids", (self.idempotency_ids.is_some(), self.filter.is_some()))?;
        dry_run_is_of_a_filter(self.dry_run, self.filter.is_some())?;
        if let Some(filter) = self.filter {
            return matching(
                (self.customer_id, filter),
                (EventsChange::Void, self.dry_run),
                self.reason,
                self.beyond_window,
            )
            .map(Voids);
        }
        let ids = self.idempotency_ids.unwrap_or_default();
        let wanted = ids.into_iter().enumerate().map(|(place, idempotency_id)| WantedCorrection {
            idempotency_id,
            change: EventChange::Void,
            attr: format!("idempotency_ids.{place}"),
        });
        let wanted = ("idempotency_ids", wanted.collect());
        Corrections::new(self.customer_id, wanted, self.reason, self.beyond_window).map(Wanted::Named).map(Voids)
    }
}

impl AmendEventsBody {
    fn read(self) -> Result<Amendments, FieldErrors> {
        one_of("events", (self.events.is_some(), self.filter.is_some()))?;
        dry_run_is_of_a_filter(self.dry_run, self.filter.is_some())?;
        let mut errors = FieldErrors::default();
        if self.filter.is_some() != self.properties.is_some() {
            errors.push(
                "properties",
                FieldCode::Invalid,
                "A filter comes with the properties to be set, and they with a filter.",
            );
        }
        errors.finish(())?;
        if let Some((filter, FreeForm(set))) = self.filter.zip(self.properties) {
            let change = EventsChange::SetProperties(set);
            return matching((self.customer_id, filter), (change, self.dry_run), self.reason, self.beyond_window)
                .map(Amendments);
        }
        let events = self.events.unwrap_or_default();
        let mut errors = FieldErrors::default();
        let mut wanted = Vec::with_capacity(events.len());
        for (place, event) in events.into_iter().enumerate() {
            let AmendedEventBody { idempotency_id, time_created, properties } = event;
            if time_created.is_none() && properties.is_none() {
                let detail = "Say what is to change: time_created, properties or both.";
                errors.push(format!("events.{place}"), FieldCode::Required, detail);
            }
            let properties = properties.map(|FreeForm(properties)| Properties::from(properties));
            let change = EventChange::Amend { time_created: time_created.map(|Instant(at)| at), properties };
            wanted.push(WantedCorrection { idempotency_id, change, attr: format!("events.{place}.idempotency_id") });
        }
        let read = Corrections::new(self.customer_id, ("events", wanted), self.reason, self.beyond_window);
        let read = errors.keep_all("", read);
        errors.finish(())?;
        read.map(Wanted::Named).map(Amendments).ok_or_else(FieldErrors::default)
    }
}

read_through! { Voids = VoidEventsBody; Amendments = AmendEventsBody; }

view! {
    /// An event as it counts now.
    CorrectedEventView {
        /// The sender's id for it.
        idempotency_id: String,
        /// What happened.
        event_name: String,
        /// When it happened; of a voided one as it was thought last.
        time_created: Instant,
        /// Its properties; of a voided one those that it had last.
        properties: Properties,
        /// What has become of it.
        state: EventState,
    }
}

impl From<KeptEvent> for CorrectedEventView {
    fn from(KeptEvent { event, state }: KeptEvent) -> Self {
        Self {
            idempotency_id: event.idempotency_id,
            event_name: event.name,
            time_created: Instant(event.time_created),
            properties: event.properties,
            state,
        }
    }
}

view! {
    /// What became of events.
    CorrectedEventsView {
        /// The events, in the order in which they were named; none where there was a filter.
        events: Vec<CorrectedEventView>,
        /// The job that corrects the events of a filter; null where they were named.
        job: Option<JobView>,
        /// What a dry run has found; null otherwise.
        preview: Option<CorrectionPreviewView>,
    }
}

/// `POST /api/events/void/`
async fn void(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(Voids(wanted)): ApiJson<Voids>,
) -> Result<web::Json<CorrectedEventsView>, ApiError> {
    correct(&app, caller, wanted).await
}

/// `POST /api/events/amend/`
async fn amend(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(Amendments(wanted)): ApiJson<Amendments>,
) -> Result<web::Json<CorrectedEventsView>, ApiError> {
    correct(&app, caller, wanted).await
}

async fn correct(app: &App, caller: Caller, wanted: Wanted) -> Result<web::Json<CorrectedEventsView>, ApiError> {
    let corrections = match wanted {
        Wanted::Named(corrections) => corrections,
        Wanted::Matching(order, true) => {
            let preview = Some(CorrectionPreviewView::of(app, &caller, order).await?);
            return Ok(web::Json(CorrectedEventsView { events: Vec::new(), job: None, preview }));
        }
        Wanted::Matching(order, false) => {
            let order = CorrectionOrder { by: Some(caller.actor.id.clone()), ..order };
            let view = app.on_catalog(&caller, move |tx, now| {
                let job = order_corrections(tx, &order, now)?;
                Ok(CorrectedEventsView { events: Vec::new(), job: Some(JobView::new(job, 0)), preview: None })
            });
            return Ok(web::Json(view.await?));
        }
    };
    let Corrections { customer, wanted, reason, beyond_window } = corrections;
    let command = CorrectEvents {
        customer: CustomerKey::derive(caller.organization, &customer),
        corrections: wanted,
        beyond_window,
        by: Some(caller.actor.id.clone()),
        reason,
    };
    let view = app.on_customer(&caller, &customer, move |tx, now| {
        tx.customers().get(command.customer).map_err(|error| error.at_field("customer_id"))?;
        let events = correct_events(tx, &command, now)?;
        Ok(CorrectedEventsView {
            events: events.into_iter().map(CorrectedEventView::from).collect(),
            job: None,
            preview: None,
        })
    });
    Ok(web::Json(view.await?))
}
