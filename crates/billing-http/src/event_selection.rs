//! Which events are corrected, where they are not named one by one.

use billing_domain::customer::CustomerId;
use billing_domain::event::Properties;
use billing_domain::id::MetricId;
use billing_domain::job::EventSelection;
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::{FieldCode, FieldErrors};
use serde_json::{Map, Value};

use crate::wire::{FreeForm, Instant, StartDate, UntilDate, body, view};

body! {
    /// Which events: those that are all of this.
    EventSelectionBody {
        /// Of this customer; of all when missing.
        optional customer_id: CustomerId,
        /// Counting for this metric.
        optional metric_id: MetricId,
        /// Of this name.
        optional event_name: String,
        /// Happened at this instant or later; a date is its midnight UTC.
        optional from: StartDate,
        /// Happened before this instant; a date ends with its day.
        optional to: UntilDate,
        /// With these properties, each with this value.
        optional properties: FreeForm,
    }
}

impl EventSelectionBody {
    /// The selection, of which `customer` may be said beside it.
    ///
    /// # Errors
    /// No condition at all; two customers; a value that no property is compared with; an end before the start.
    pub fn selection(self, customer: Option<CustomerId>) -> Result<EventSelection, FieldErrors> {
        let mut errors = FieldErrors::default();
        let Self { customer_id, metric_id, event_name, from, to, properties } = self;
        if customer.as_ref().zip(customer_id.as_ref()).is_some_and(|(beside, inside)| beside != inside) {
            errors.push("customer_id", FieldCode::Invalid, "This is another customer than that of the body.");
        }
        let (from, to) = (from.map(|StartDate(from)| from), to.map(|UntilDate(to)| to));
        if from.zip(to).is_some_and(|(from, to)| to < from) {
            errors.push("to", FieldCode::MinValue, "The end lies before the start.");
        }
        let wanted = Properties::from(properties.map(|FreeForm(map)| map).unwrap_or_default());
        let pairs = wanted.to_map().into_iter().map(|(name, _)| {
            let text = wanted.text(&name).map(|text| text.into_owned()).unwrap_or_default();
            (name, text)
        });
        let properties = errors.keep("properties", SubscriptionFilters::new(pairs.collect::<Vec<_>>()));
        let selection = EventSelection {
            customer: customer.or(customer_id),
            metric: metric_id,
            event_name,
            from,
            to,
            properties: properties.unwrap_or_default(),
        };
        if errors.is_empty() && selection == EventSelection::default() {
            errors.push("", FieldCode::Required, "Say which events: all of them are never meant.");
        }
        errors.finish(selection)
    }
}

view! {
    /// Which events: those that are all of this.
    EventSelectionView {
        /// Of this customer; null: of all.
        customer_id: Option<String>,
        /// Counting for this metric.
        metric_id: Option<MetricId>,
        /// Of this name.
        event_name: Option<String>,
        /// Happened at this instant or later.
        from: Option<Instant>,
        /// Happened before this instant.
        to: Option<Instant>,
        /// With these properties.
        properties: Properties,
    }
}

impl From<EventSelection> for EventSelectionView {
    fn from(selection: EventSelection) -> Self {
        let pairs = selection.properties.iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
        Self {
            customer_id: selection.customer.map(|customer| customer.as_str().to_owned()),
            metric_id: selection.metric,
            event_name: selection.event_name,
            from: selection.from.map(Instant),
            to: selection.to.map(Instant),
            properties: Properties::from(pairs.collect::<Map<_, _>>()),
        }
    }
}
