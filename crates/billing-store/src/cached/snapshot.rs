//! What is read of a locked customer before it is worked on.

use std::collections::{BTreeMap, BTreeSet};

use billing_domain::charge::BillingRecord;
use billing_domain::customer::Customer;
use billing_domain::id::{InvoiceId, SubscriptionId};
use billing_domain::subscription::Subscription;
use billing_domain::usage::{SeenUsage, UsageRequest};
use billing_domain::usage_alert::Firing;
use time::{Date, OffsetDateTime};

/// One customer, locked, and what billing begins with.
pub(crate) struct CustomerSnapshot {
    pub(crate) customer: Customer,
    /// The time that the customer lives at.
    pub(crate) now: OffsetDateTime,
    /// Those with an invoicing instant to come or that wait for late events, as they are listed.
    pub(crate) records: Vec<BillingRecord>,
    /// By start, then by id: those that end after `current_from` or await renewal.
    current: Vec<Subscription>,
    current_from: OffsetDateTime,
    /// Others that have a record here.
    ended: Vec<Subscription>,
    pub(crate) has_credit: bool,
    /// Unpaid invoices that were not noted as past due, with the instants at which they fall due.
    pub(crate) falling_due: Vec<(InvoiceId, OffsetDateTime)>,
    invoicings: BTreeMap<SubscriptionId, (Date, i64)>,
    /// Questions about usage, each with its answer from one statement.
    usages: Vec<(Vec<UsageRequest>, Vec<SeenUsage>)>,
    /// The usage alerts that have fired for the customer, once that was asked for.
    firings: Option<BTreeSet<Firing>>,
}

impl CustomerSnapshot {
    /// Of a customer at their now: the open records as they are listed; by start, then by id, what is held that ends after an
    /// instant, awaits renewal or has one of the records; whether there is credit.
    pub(crate) fn new(
        (customer, now): (Customer, OffsetDateTime),
        records: Vec<BillingRecord>,
        (held, current_from): (Vec<Subscription>, OffsetDateTime),
        has_credit: bool,
    ) -> Self {
        let (current, ended) = held.into_iter().partition(|subscription| subscription.is_current(current_from));
        let (falling_due, invoicings) = (Vec::new(), BTreeMap::new());
        Self {
            customer,
            now,
            records,
            current,
            current_from,
            ended,
            has_credit,
            falling_due,
            invoicings,
            usages: Vec::new(),
            firings: None,
        }
    }

    /// With the unpaid invoices that were not noted as past due, and when they fall due.
    pub(crate) fn with_falling_due(self, falling_due: Vec<(InvoiceId, OffsetDateTime)>) -> Self {
        Self { falling_due, ..self }
    }

    /// With how often subscriptions were invoiced by schedule on the latest day that they were.
    pub(crate) fn with_invoicings(self, invoicings: BTreeMap<SubscriptionId, (Date, i64)>) -> Self {
        Self { invoicings, ..self }
    }

    pub(crate) fn subscription(&self, id: SubscriptionId) -> Option<&Subscription> {
        self.current.iter().chain(&self.ended).find(|subscription| subscription.id == id)
    }

    /// [`billing_domain::store::SubscriptionRepo::list_current`], where that has been read.
    pub(crate) fn list_current(&self, instant: OffsetDateTime) -> Option<Vec<Subscription>> {
        let current = || self.current.iter().filter(|subscription| subscription.is_current(instant));
        (instant >= self.current_from).then(|| current().cloned().collect())
    }

    pub(crate) fn usages(&self, requests: &[UsageRequest]) -> Option<Vec<SeenUsage>> {
        self.usages.iter().find(|(asked, _)| asked == requests).map(|(_, usages)| usages.clone())
    }

    /// Keeps the answer to a question.
    pub(crate) fn keep(&mut self, requests: Vec<UsageRequest>, usages: Vec<SeenUsage>) {
        self.usages.push((requests, usages));
    }

    /// Whether an alert has fired, where that has been read.
    pub(crate) fn has_fired(&self, firing: &Firing) -> Option<bool> {
        self.firings.as_ref().map(|firings| firings.contains(firing))
    }

    /// Keeps all that have fired.
    pub(crate) fn keep_firings(&mut self, firings: BTreeSet<Firing>) {
        self.firings = Some(firings);
    }

    pub(crate) fn invoicings(&self, subscription: SubscriptionId) -> Option<(Date, i64)> {
        self.invoicings.get(&subscription).copied()
    }
}
