//! How the organization stands.

use actix_web::web;
use billing_domain::store::{EventMinute, Invoiced, Overview, RecentEvents, UncountedEvents, UncountedReason};

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get};
use crate::error::ApiError;
use crate::wire::{Instant, Number, view, words_of};

/// The call about the whole organization.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get(
            "/api/overview/",
            "Show how the organization stands: invoiced, due, parked, failing, events of the last hour",
            show,
        )
        .answers::<OverviewView>(200),
    ]
}

view! {
    /// How the organization stands at this moment.
    OverviewView {
        /// What was invoiced, by currency. Voided invoices do not count, nor do those of customers under a test clock.
        invoiced: Vec<InvoicedView>,
        /// Customers in real time whose billing is due.
        customers_due: u64,
        /// Those of them that are left alone because their billing failed too often.
        customers_parked: u64,
        /// How long ago the first of the others fell due, in seconds; 0 when there is none.
        billing_lag_seconds: u64,
        /// Enabled webhook endpoints of which every attempt has failed for a while.
        webhooks_failing: u64,
        /// The events that came in lately.
        events: RecentEventsView,
    }
}

words_of! { UncountedReason }

view! {
    /// The events that came in within the last hour, the minute that runs among them. Each server process adds what it has stored every other
    /// second; one that is killed loses what it has not added yet, of these figures and of nothing else.
    RecentEventsView {
        /// How many were new.
        last_hour: u64,
        /// Those of them whose customer was not there when they came.
        of_unknown_customers: u64,
        /// Those of the others whose name no metric counted when they came.
        of_unknown_names: u64,
        /// How many came in each minute: sixty of them, the one that runs last.
        by_minute: Vec<EventMinuteView>,
        /// What came within a day and still counts for nothing, by what is unknown of it, the latest first; at most 20.
        uncounted: Vec<UncountedEventsView>,
    }
}

view! {
    /// The events that came in within a minute.
    EventMinuteView {
        /// Its first instant.
        start: Instant,
        /// How many were new.
        event_count: u64,
        /// Those of them that counted for nothing when they came.
        uncounted_count: u64,
    }
}

view! {
    /// Events that count for nothing, of one customer or of one name.
    UncountedEventsView {
        /// Why: nobody has their `customer_id` (they count once somebody does), or no metric counts their name.
        reason: UncountedReason,
        /// Their name; where the customer is the reason, that of the latest.
        event_name: String,
        /// Their customer; where the name is the reason, that of the latest.
        customer_id: String,
        /// How many came since the first.
        event_count: u64,
        /// When the first came, or the first after none had come for a day.
        first_at: Instant,
        /// When the latest came.
        last_at: Instant,
    }
}

view! {
    /// What was invoiced in one currency.
    InvoicedView {
        /// The currency.
        currency_code: String,
        /// Amounts of the invoices issued since the first of the month, UTC.
        this_month: Number,
        /// Amounts of those issued in the month before.
        last_month: Number,
        /// Of these what was issued as early in that month as it is in this one.
        last_month_so_far: Number,
    }
}

impl From<Invoiced> for InvoicedView {
    fn from(invoiced: Invoiced) -> Self {
        Self {
            currency_code: invoiced.currency_code,
            this_month: (&invoiced.this_month).into(),
            last_month: (&invoiced.last_month).into(),
            last_month_so_far: (&invoiced.last_month_so_far).into(),
        }
    }
}

impl From<RecentEvents> for RecentEventsView {
    fn from(recent: RecentEvents) -> Self {
        let sum = |count: fn(&EventMinute) -> u64| recent.minutes.iter().map(count).sum();
        Self {
            last_hour: sum(|minute| minute.stored),
            of_unknown_customers: sum(|minute| minute.of_unknown_customers),
            of_unknown_names: sum(|minute| minute.of_unknown_names),
            by_minute: recent.minutes.iter().map(EventMinuteView::from).collect(),
            uncounted: recent.uncounted.into_iter().map(UncountedEventsView::from).collect(),
        }
    }
}

impl From<&EventMinute> for EventMinuteView {
    fn from(minute: &EventMinute) -> Self {
        Self {
            start: Instant(minute.start),
            event_count: minute.stored,
            uncounted_count: minute.of_unknown_customers + minute.of_unknown_names,
        }
    }
}

impl From<UncountedEvents> for UncountedEventsView {
    fn from(events: UncountedEvents) -> Self {
        Self {
            reason: events.reason,
            customer_id: events.customer.as_str().to_owned(),
            event_name: events.event_name,
            event_count: events.event_count,
            first_at: Instant(events.first_at),
            last_at: Instant(events.last_at),
        }
    }
}

impl From<(Overview, RecentEvents)> for OverviewView {
    fn from((overview, events): (Overview, RecentEvents)) -> Self {
        Self {
            events: events.into(),
            invoiced: overview.invoiced.into_iter().map(InvoicedView::from).collect(),
            customers_due: overview.customers_due,
            customers_parked: overview.customers_parked,
            billing_lag_seconds: u64::try_from(overview.lag.whole_seconds()).unwrap_or_default(),
            webhooks_failing: overview.webhooks_failing,
        }
    }
}

/// `GET /api/overview/`
async fn show(app: web::Data<App>, caller: Caller) -> Result<web::Json<OverviewView>, ApiError> {
    let organization = caller.organization;
    let overview = app.block(Some(organization), move |backend| {
        Ok((backend.overview(organization)?, backend.recent_events(organization)?))
    });
    Ok(web::Json(overview.await?.into()))
}
