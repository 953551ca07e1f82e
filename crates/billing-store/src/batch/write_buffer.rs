//! What the customers of a batch have done, until all of it is written.

use std::collections::BTreeMap;

use billing_domain::Error;
use billing_domain::charge::BillingRecord;
use billing_domain::id::{CustomerKey, SubscriptionId};
use billing_domain::invoice::NewInvoice;
use billing_domain::message::Message;
use billing_domain::subscription::Subscription;
use billing_domain::usage_alert::Firing;
use diesel::RunQueryDsl;
use diesel::sql_types::{Array, BigInt, Date as SqlDate, Uuid as SqlUuid};
use time::{Date, OffsetDateTime};
use uuid::Uuid;

use crate::pg::statement::statement;
use crate::repo::usage_alert::InsertFirings;
use crate::transaction::{PastDue, PgTransaction, Reached};

statement! {
    /// Writes how often subscriptions were invoiced by schedule on the latest day that they were.
    WriteInvoicings -> BigInt {
        "INSERT INTO invoicing_counts (customer_key, subscription_id, organization_id, invoiced_on, invoices)
        SELECT customer_key, subscription_id, " organization: Uuid as SqlUuid; ", invoiced_on, invoices
        FROM unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ", " subscriptions: Vec<Uuid> as Array<SqlUuid>; ",
            " days: Vec<Date> as Array<SqlDate>; ", " counts: Vec<i64> as Array<BigInt>; ")
            AS counted (customer_key, subscription_id, invoiced_on, invoices)
        ON CONFLICT (customer_key, subscription_id) DO UPDATE SET
            invoiced_on = excluded.invoiced_on, invoices = excluded.invoices"
    }
}

/// Changes that are in memory alone. What is changed twice is written once, as it is in the end.
#[derive(Default)]
pub(crate) struct WriteBuffer {
    new: Vec<Subscription>,
    changed: Vec<Subscription>,
    records: Vec<(CustomerKey, BillingRecord)>,
    invoicings: BTreeMap<(CustomerKey, SubscriptionId), (Date, i64)>,
    reached: Reached,
    invoices: Vec<NewInvoice>,
    past_due: Vec<PastDue>,
    messages: Vec<Message>,
    firings: Vec<(Firing, OffsetDateTime)>,
}

impl WriteBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { new, changed, records, invoicings, reached, invoices, past_due, messages, firings } = self;
        new.is_empty()
            && changed.is_empty()
            && records.is_empty()
            && invoicings.is_empty()
            && reached.0.is_empty()
            && invoices.is_empty()
            && past_due.is_empty()
            && messages.is_empty()
            && firings.is_empty()
    }

    /// [`billing_domain::store::SubscriptionRepo::save`].
    pub(crate) fn save_subscriptions(&mut self, new: &[Subscription], changed: &[Subscription]) {
        for subscription in changed {
            let place = self.new.iter_mut().chain(&mut self.changed).find(|before| before.id == subscription.id);
            match place {
                Some(before) => *before = subscription.clone(),
                None => self.changed.push(subscription.clone()),
            }
        }
        self.new.extend(new.iter().cloned());
    }

    /// [`billing_domain::store::BillingRecordRepo::save`].
    pub(crate) fn save_records(&mut self, customer: CustomerKey, records: &[BillingRecord]) {
        for record in records {
            match self.records.iter_mut().find(|(_, before)| before.id == record.id) {
                Some((_, before)) => *before = record.clone(),
                None => self.records.push((customer, record.clone())),
            }
        }
    }

    /// [`billing_domain::store::SubscriptionRepo::count_invoicing`] of one subscription; `stored` is its latest day with
    /// the count of that.
    pub(super) fn count_invoicing(
        &mut self,
        customer: CustomerKey,
        subscription: SubscriptionId,
        stored: Option<(Date, i64)>,
        day: Date,
    ) -> i64 {
        let latest = self.invoicings.entry((customer, subscription)).or_insert(stored.unwrap_or((day, 0)));
        *latest = if latest.0 < day { (day, 1) } else { (latest.0, latest.1 + 1) };
        latest.1
    }

    /// [`billing_domain::store::CustomerRepo::advance_instant_and_queue`].
    pub(crate) fn advance_instant_and_queue(
        &mut self,
        customer: CustomerKey,
        instant: OffsetDateTime,
        due_at: Option<OffsetDateTime>,
    ) {
        self.reached.advance(customer, instant, due_at);
    }

    pub(super) fn with_invoices(self, invoices: Vec<NewInvoice>) -> Self {
        Self { invoices, ..self }
    }

    /// [`billing_domain::store::InvoiceRepo::note_past_due`].
    pub(super) fn note_past_due(&mut self, past_due: PastDue) {
        self.past_due.push(past_due);
    }

    /// [`billing_domain::store::MessageRepo::insert`].
    pub(super) fn insert_message(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// [`billing_domain::store::UsageAlertRepo::insert_firing`].
    pub(super) fn insert_firing(&mut self, firing: Firing, at: OffsetDateTime) {
        self.firings.push((firing, at));
    }

    /// Whether an alert fires here.
    pub(super) fn has_fired(&self, firing: &Firing) -> bool {
        self.firings.iter().any(|(fired, _)| fired == firing)
    }

    /// Adds what another customer has done.
    pub(super) fn append(&mut self, other: Self) {
        let Self { new, changed, records, invoicings, reached, invoices, past_due, messages, firings } = other;
        self.new.extend(new);
        self.changed.extend(changed);
        self.records.extend(records);
        self.invoicings.extend(invoicings);
        self.reached.0.extend(reached.0);
        self.invoices.extend(invoices);
        self.past_due.extend(past_due);
        self.messages.extend(messages);
        self.firings.extend(firings);
    }
}

impl PgTransaction<'_> {
    /// Writes everything, in the order of locks: key ranges, queue, counter.
    pub(super) fn write(&mut self, all: WriteBuffer) -> Result<(), Error> {
        let WriteBuffer { new, changed, records, invoicings, reached, invoices, past_due, messages, firings } = all;
        self.write_subscriptions(&new, &changed)?;
        self.write_records(records.iter().map(|(customer, record)| (*customer, record)))?;
        if !invoicings.is_empty() {
            let write = WriteInvoicings {
                organization: self.tenant(),
                customers: invoicings.keys().map(|(customer, _)| customer.uuid()).collect(),
                subscriptions: invoicings.keys().map(|(_, subscription)| subscription.uuid()).collect(),
                days: invoicings.values().map(|(day, _)| *day).collect(),
                counts: invoicings.values().map(|(_, count)| *count).collect(),
            };
            self.query(|pg| write.execute(pg))?;
        }
        if !firings.is_empty() {
            let insert = InsertFirings::new(self.tenant(), &firings);
            self.query(|pg| insert.execute(pg))?;
        }
        self.reached = reached;
        self.unissued = invoices;
        self.past_due = past_due;
        self.new_messages = messages;
        self.write_deferred()
    }
}
