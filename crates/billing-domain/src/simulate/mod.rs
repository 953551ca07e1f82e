//! Offline simulation: what a plan would have cost, on events that happened or on a profile of usage.
//!
//! A simulation runs the very workflows of the service on a [`MemoryStore`](crate::memory::MemoryStore), so
//! its invoices are those the service would have issued, to the cent and with the same traces.
//!
//! ```
//! use billing_domain::decimal::plain;
//! use billing_domain::simulate::{Offer, Simulation, tiers};
//! use time::macros::datetime;
//!
//! let starter = Offer::monthly("Starter")
//!     .fee("base", "30")
//!     .count("api_call", tiers().free_to("500").per_unit("0.01"));
//! let year = Simulation::between(datetime!(2026-01-01 0:00 UTC), datetime!(2027-01-01 0:00 UTC))
//!     .steadily("api_call", 25); // events a day
//!
//! let bill = year.price(&starter)?;
//! assert_eq!(plain(&bill.total()), "391.25"); // 12 fees of 30, and 3,125 calls beyond the free ones
//! assert_eq!(bill.invoices().count(), 13); // a fee in advance each month, usage a month later
//! # Ok::<(), billing_domain::Error>(())
//! ```
//!
//! Two plans on the same events, side by side:
//!
//! ```
//! # use billing_domain::simulate::{Offer, Simulation, tiers};
//! # use time::macros::datetime;
//! let before = Offer::monthly("Flat").fee("base", "40");
//! let after = Offer::monthly("Metered").count("api_call", tiers().per_unit("0.05"));
//! let quarter = Simulation::between(datetime!(2026-01-01 0:00 UTC), datetime!(2026-04-01 0:00 UTC))
//!     .steadily("api_call", 25);
//! let comparison = quarter.compare(&before, &after)?;
//! assert_eq!(comparison.to_string(), "\
//! customer               before        after   difference
//! customer               120.00       112.50        -7.50
//! total                  120.00       112.50        -7.50
//! ");
//! # Ok::<(), billing_domain::Error>(())
//! ```

mod comparison;
mod offer;
mod run;
mod tiers;

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use time::{Duration, OffsetDateTime};

use crate::customer::CustomerId;
use crate::error::Error;
use crate::event::{Event, Properties};
use crate::invoice::Invoice;
use crate::subscription::SubscriptionFilters;

pub use comparison::{Comparison, ComparisonRow};
pub use offer::Offer;
pub use tiers::{TierBuilder, tiers};

/// Who has the usage of [`Simulation::steadily`].
const CUSTOMER: &str = "customer";

/// Usage over a span of time, to be priced by any number of offers.
///
/// Every customer that has an event subscribes at the start of the span and renews through it; every period
/// that begins inside the span is billed to its end. Surprising: events before the start or after the last
/// period are not an error, they just belong to no period.
#[derive(Clone, Debug)]
pub struct Simulation {
    start: OffsetDateTime,
    end: OffsetDateTime,
    events: BTreeMap<CustomerId, Vec<Event>>,
    filters: SubscriptionFilters,
    tax_rate: Option<BigDecimal>,
    prepaid_units: Vec<(String, BigDecimal)>,
}

impl Simulation {
    /// A span without usage. An end at or before the start simulates nothing.
    pub fn between(start: OffsetDateTime, end: OffsetDateTime) -> Self {
        Self {
            start,
            end,
            events: BTreeMap::new(),
            filters: SubscriptionFilters::none(),
            tax_rate: None,
            prepaid_units: Vec::new(),
        }
    }

    /// Adds events that happened, of one customer or of many.
    #[must_use]
    pub fn events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        for event in events {
            self.events.entry(event.customer.clone()).or_default().push(event);
        }
        self
    }

    /// Adds `per_day` events a day of one customer called `customer`, spread evenly over the span.
    #[must_use]
    pub fn steadily(self, event_name: &str, per_day: u32) -> Self {
        self.steadily_with(event_name, per_day, &Properties::new())
    }

    /// [`Simulation::steadily`], each event with the same properties.
    #[must_use]
    pub fn steadily_with(self, event_name: &str, per_day: u32, properties: &Properties) -> Self {
        let Ok(customer) = CUSTOMER.parse::<CustomerId>() else { return self };
        let pause = Duration::DAY / per_day.max(1);
        let count = if per_day == 0 { 0 } else { (self.end - self.start).max(Duration::ZERO).whole_days() };
        let start = self.start;
        let events = (0..count).flat_map(|day| (0..per_day).map(move |n| (day, n))).map(|(day, n)| Event {
            customer: customer.clone(),
            name: event_name.to_owned(),
            idempotency_id: format!("{event_name}-{day}-{n}"),
            time_created: start + Duration::days(day) + pause * n,
            properties: properties.clone(),
        });
        let events: Vec<_> = events.collect();
        self.events(events)
    }

    /// Lets only events with all of these properties count.
    #[must_use]
    pub fn filtered(mut self, filters: SubscriptionFilters) -> Self {
        self.filters = filters;
        self
    }

    /// Adds sales tax, in percent.
    #[must_use]
    pub fn taxed(mut self, rate: BigDecimal) -> Self {
        self.tax_rate = Some(rate);
        self
    }

    /// Buys so many prepaid units of the metric that counts `event_name`, where the offer has such a component.
    #[must_use]
    pub fn prepaying(mut self, event_name: &str, units: BigDecimal) -> Self {
        self.prepaid_units.push((event_name.to_owned(), units));
        self
    }

    /// Prices the usage by `offer`.
    ///
    /// # Errors
    /// What is wrong with the offer, or a prepaid component whose units nobody says.
    pub fn price(&self, offer: &Offer) -> Result<Bill, Error> {
        let mut invoices = BTreeMap::new();
        for (customer, events) in &self.events {
            invoices.insert(customer.clone(), run::run(self, offer, customer, events)?);
        }
        if invoices.is_empty()
            && let Ok(customer) = CUSTOMER.parse::<CustomerId>()
        {
            invoices.insert(customer.clone(), run::run(self, offer, &customer, &[])?);
        }
        Ok(Bill { invoices })
    }

    /// Prices the same usage by two offers.
    ///
    /// # Errors
    /// As [`Simulation::price`].
    pub fn compare(&self, before: &Offer, after: &Offer) -> Result<Comparison, Error> {
        Ok(Comparison::of(&self.price(before)?, &self.price(after)?))
    }
}

/// The invoices of a simulation.
#[derive(Clone, Debug)]
pub struct Bill {
    invoices: BTreeMap<CustomerId, Vec<Invoice>>,
}

impl Bill {
    /// All invoices with their traces: by customer, then oldest first.
    pub fn invoices(&self) -> impl Iterator<Item = &Invoice> {
        self.invoices.values().flatten()
    }

    /// One customer's invoices, oldest first.
    pub fn invoices_of(&self, customer: &CustomerId) -> &[Invoice] {
        self.invoices.get(customer).map_or(&[], Vec::as_slice)
    }

    /// What all invoices come to, in major units of the offer's currency.
    pub fn total(&self) -> BigDecimal {
        self.invoices().map(|invoice| &invoice.amount).sum()
    }

    /// What each customer's invoices come to.
    pub fn totals(&self) -> BTreeMap<CustomerId, BigDecimal> {
        let total = |invoices: &Vec<Invoice>| invoices.iter().map(|invoice| &invoice.amount).sum();
        self.invoices.iter().map(|(customer, invoices)| (customer.clone(), total(invoices))).collect()
    }
}

#[cfg(test)]
mod tests;
