//! What correcting events by a filter would change: it is done, looked at and undone, customer by customer.

use std::collections::BTreeMap;

use billing_domain::Error;
use billing_domain::job::CorrectionOrder;
use billing_domain::workflow::{
    MatchingPreview, MoneyChange, customers_with_matching_events, preview_matching_corrections,
};

use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::wire::{Number, view};

/// Customers among whom those with such events are looked for.
const LOOKED_AT_MAX: u32 = 200;
/// Of those with such events, how many are looked at in money.
const CUSTOMERS_MAX: usize = 20;
/// Events of one customer that are looked at: as many as one call corrects that names them.
const EVENTS_MAX: u64 = 1_000;

view! {
    /// What correcting the events of a filter would change. Nothing of it is done.
    CorrectionPreviewView {
        /// How many events are not as they are to be.
        events: u64,
        /// Of how many customers.
        customers: u64,
        /// Whether that is all: at most 1,000 events of a customer are looked at, and 20 customers of the first 200; and what custom metrics
        /// come to is not.
        is_complete: bool,
        /// What it changes in money, by currency.
        changes: Vec<MoneyChangeView>,
    }
}

view! {
    /// What changes in one currency, with tax; below 0: it is less.
    MoneyChangeView {
        /// The currency.
        currency_code: String,
        /// What the next invoices bill more, or give back, of time that was invoiced.
        invoiced: Number,
        /// What the time that is not invoiced yet comes to more or less, as of now.
        open: Number,
    }
}

impl CorrectionPreviewView {
    /// Of an order that somebody may give.
    ///
    /// # Errors
    /// As for the order itself; `beyond_window` where that is not asked for.
    pub async fn of(app: &App, caller: &Caller, order: CorrectionOrder) -> Result<Self, ApiError> {
        let is_of_one = order.selection.customer.is_some();
        let wanted = order.clone();
        let find = app.read(caller, move |tx, _| customers_with_matching_events(tx, &wanted, LOOKED_AT_MAX));
        let (customers, is_all) = find.await?;
        let mut view = Self {
            events: 0,
            customers: 0,
            is_complete: is_all && customers.len() <= CUSTOMERS_MAX,
            changes: Vec::new(),
        };
        let mut changes: BTreeMap<String, MoneyChange> = BTreeMap::new();
        for customer in customers.into_iter().take(CUSTOMERS_MAX) {
            let order = order.clone();
            let preview = app.try_on_customer_key(caller, customer, move |tx, now| {
                match preview_matching_corrections(tx, customer, (&order, EVENTS_MAX), now) {
                    // The job waits for them; here it is not known.
                    Err(Error::Refused(refusal)) if refusal.is_passing() && !is_of_one => {
                        Ok(MatchingPreview::default())
                    }
                    looked_at => looked_at,
                }
            });
            let preview = preview.await?;
            view.is_complete &= preview.is_complete;
            view.events += preview.events;
            view.customers += u64::from(preview.events > 0);
            for (code, change) in preview.changes {
                let sum = changes.entry(code).or_default();
                sum.invoiced += change.invoiced;
                sum.open += change.open;
            }
        }
        let views = changes.into_iter().map(|(currency_code, change)| MoneyChangeView {
            currency_code,
            invoiced: (&change.invoiced).into(),
            open: (&change.open).into(),
        });
        view.changes = views.collect();
        Ok(view)
    }
}
