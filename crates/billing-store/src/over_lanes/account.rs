//! What customers own: each customer's lane is asked, and of what is looked for by an id alone, one lane after the other.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use billing_domain::charge::BillingRecord;
use billing_domain::credit::CreditLedger;
use billing_domain::credit_note::{CreditNote, NewCreditNote};
use billing_domain::custom_sql::{CustomFailure, CustomUsageRequest};
use billing_domain::customer::Customer;
use billing_domain::event::{EventCorrection, EventHistory, KeptEvent};
use billing_domain::id::{CreditId, CreditNoteId, CustomerKey, InvoiceId, JobId, LineId, OneOffLineId, SubscriptionId};
use billing_domain::invoice::{Invoice, InvoiceSummary, NewInvoice, PaymentStatus};
use billing_domain::payment::Payment;
use billing_domain::store::{
    BillingRecordRepo, CreditNoteFilter, CreditRepo, CustomerRepo, EventFilter, EventRepo, InvoiceFilter, InvoiceRepo,
    Page, PageRequest, SearchedBy, SharedIdCursor, SubscriptionRepo, Transaction as _,
};
use billing_domain::subscription::Subscription;
use billing_domain::usage::{SeenUsage, UsageRequest};
use billing_domain::{Error, Noun};
use time::{Date, OffsetDateTime};

use super::OverLanes;
use super::methods::{in_its_lane, refuse};
use crate::pg::cursor::Cursor;
use crate::repo::customer::{list_key_of, page_of};
use crate::repo::{credit_note, invoice};
use crate::transaction::{PgTransaction, hand_on};

impl CustomerRepo for OverLanes<'_, '_> {
    fn list(&mut self, page: &PageRequest) -> Result<Page<Customer>, Error> {
        let after = page.after.as_deref().map(list_key_of).transpose()?;
        let mut found = self.each(|tx| tx.list_customers(after, page.limit))?.concat();
        found.sort_unstable_by_key(|(key, _)| *key);
        let found = found.into_iter().map(|(key, customer)| (key.simple().to_string(), customer));
        Ok(page_of(found.collect(), page.limit))
    }

    fn search(&mut self, by: SearchedBy, beginning: &str, limit: u32) -> Result<Vec<Customer>, Error> {
        let mut found = self.each(|tx| tx.customers().search(by, beginning, limit))?.concat();
        found.sort_by_cached_key(|customer| (by.of(customer), customer.key));
        found.truncate(limit as usize);
        Ok(found)
    }

    hand_on! { customers =>
        fn find_by_email(email: &str) -> Option<CustomerKey>;
    }

    fn nows(&mut self, keys: &[CustomerKey]) -> Result<Vec<OffsetDateTime>, Error> {
        self.of_requests(keys, |key| *key, |tx, keys| tx.customers().nows(keys))
    }

    in_its_lane! { customers =>
        fn get(key: CustomerKey) -> Customer;
        fn get_even_deleted(key: CustomerKey) -> Customer;
        fn now(key: CustomerKey) -> OffsetDateTime;
    }

    refuse! {
        fn insert(customer: &Customer) -> ();
        fn update(customer: &Customer) -> ();
        fn advance_instant(key: CustomerKey, instant: OffsetDateTime) -> ();
        fn set_billing_due(key: CustomerKey, due_at: Option<OffsetDateTime>) -> ();
        fn set_catching_up(key: CustomerKey, catching_up: bool) -> ();
        fn park_billing(key: CustomerKey, failures: u32, reason: &str) -> bool;
        fn retry_billing(key: CustomerKey) -> bool;
        fn advance_instant_and_queue(key: CustomerKey, instant: OffsetDateTime, due_at: Option<OffsetDateTime>) -> ();
    }
}

impl SubscriptionRepo for OverLanes<'_, '_> {
    fn customer_of(&mut self, id: SubscriptionId) -> Result<CustomerKey, Error> {
        self.find(Noun::Subscription, |tx| tx.subscriptions().customer_of(id))
    }

    fn list_with_billing(&mut self, customers: &[CustomerKey]) -> Result<Vec<(Subscription, bool)>, Error> {
        let mut all = self.of_each(customers, |tx, some| tx.subscriptions().list_with_billing(some))?.concat();
        all.sort_by_key(|(subscription, _)| (subscription.period.start(), subscription.id));
        Ok(all)
    }

    in_its_lane! { subscriptions =>
        fn get(customer: CustomerKey, id: SubscriptionId) -> Subscription;
        fn list(customer: CustomerKey) -> Vec<Subscription>;
        fn list_current(customer: CustomerKey, instant: OffsetDateTime) -> Vec<Subscription>;
    }

    refuse! {
        fn insert(subscription: &Subscription) -> ();
        fn update(subscription: &Subscription) -> ();
        fn save(new: &[Subscription], changed: &[Subscription]) -> ();
        fn count_invoicing(customer: CustomerKey, subscriptions: &[SubscriptionId], day: Date) -> Vec<u32>;
    }
}

impl BillingRecordRepo for OverLanes<'_, '_> {
    fn list_open_of(&mut self, customers: &[CustomerKey]) -> Result<Vec<BillingRecord>, Error> {
        Ok(self.of_each(customers, |tx, some| tx.billing_records().list_open_of(some))?.concat())
    }

    in_its_lane! { billing_records =>
        fn list_open(customer: CustomerKey) -> Vec<BillingRecord>;
        fn list(customer: CustomerKey, subscription: SubscriptionId) -> Vec<BillingRecord>;
    }

    refuse! {
        fn insert(customer: CustomerKey, records: &[BillingRecord]) -> ();
        fn update(customer: CustomerKey, record: &BillingRecord) -> ();
        fn save(customer: CustomerKey, records: &[BillingRecord]) -> ();
    }
}

impl InvoiceRepo for OverLanes<'_, '_> {
    fn list_by_id(&mut self, ids: &[(CustomerKey, InvoiceId)]) -> Result<Vec<Invoice>, Error> {
        let apart = self.shared().lanes.apart(ids.iter().copied(), |(customer, _)| *customer);
        let mut found = Vec::with_capacity(ids.len());
        for (lane, placed) in apart {
            let ids: Vec<_> = placed.into_iter().map(|(_, id)| id).collect();
            found.extend(self.ask(lane, |tx| tx.invoices().list_by_id(&ids))?);
        }
        Ok(found)
    }

    in_its_lane! { invoices =>
        fn list_falling_due(customer: CustomerKey) -> Vec<(InvoiceId, OffsetDateTime)>;
    }

    fn get(&mut self, id: InvoiceId) -> Result<Invoice, Error> {
        self.find(Noun::Invoice, |tx| tx.invoices().get(id))
    }

    fn list_of(
        &mut self,
        customers: &[CustomerKey],
        statuses: &[PaymentStatus],
        each: u32,
    ) -> Result<Vec<InvoiceSummary>, Error> {
        let mut all = self.of_each(customers, |tx, some| tx.invoices().list_of(some, statuses, each))?.concat();
        all.sort_by_key(|invoice| std::cmp::Reverse((invoice.issued_at, invoice.id)));
        Ok(all)
    }

    fn due_of(
        &mut self,
        customers: &[CustomerKey],
    ) -> Result<BTreeMap<CustomerKey, BTreeMap<String, BigDecimal>>, Error> {
        Ok(self.of_each(customers, |tx, some| tx.invoices().due_of(some))?.into_iter().flatten().collect())
    }

    fn list(&mut self, filter: &InvoiceFilter, page: &PageRequest) -> Result<Page<Invoice>, Error> {
        let after = page.after.as_deref().map(Cursor::parse).transpose()?;
        let mut found = match filter.customers.as_deref() {
            Some([customer]) => self.of(*customer, |tx| tx.list_invoices(filter, after, page.limit))?,
            Some(customers) => {
                let of_some = |tx: &mut PgTransaction<'_>, some: &[CustomerKey]| {
                    let filter = InvoiceFilter { customers: Some(some.to_vec()), statuses: filter.statuses.clone() };
                    tx.list_invoices(&filter, after, page.limit)
                };
                self.of_each(customers, of_some)?.concat()
            }
            None => self.each(|tx| tx.list_invoices(filter, after, page.limit))?.concat(),
        };
        found.sort_by_key(|invoice| std::cmp::Reverse(invoice::cursor_of(invoice)));
        let found = found.into_iter().map(|invoice| (invoice::cursor_of(&invoice).to_text(), invoice));
        Ok(page_of(found.collect(), page.limit))
    }

    fn get_credit_note(&mut self, id: CreditNoteId) -> Result<CreditNote, Error> {
        self.find(Noun::CreditNote, |tx| tx.invoices().get_credit_note(id))
    }

    fn list_credit_notes(&mut self, filter: &CreditNoteFilter, page: &PageRequest) -> Result<Page<CreditNote>, Error> {
        let after = page.after.as_deref().map(Cursor::parse).transpose()?;
        let mut found = match filter.customer {
            Some(customer) => self.of(customer, |tx| tx.load_credit_notes(filter, after, page.limit))?,
            None => self.each(|tx| tx.load_credit_notes(filter, after, page.limit))?.concat(),
        };
        found.sort_by_key(|note| std::cmp::Reverse(credit_note::cursor_of(note)));
        let found = found.into_iter().map(|note| (credit_note::cursor_of(&note).to_text(), note));
        Ok(page_of(found.collect(), page.limit))
    }

    hand_on! { invoices => fn find_by_number(number: &str) -> Option<InvoiceId>; }

    in_its_lane! { invoices =>
        fn list_payments(customer: CustomerKey, invoice: Option<InvoiceId>) -> Vec<Payment>;
        fn list_with_usage_at(customer: CustomerKey, times: &[OffsetDateTime]) -> Vec<InvoiceId>;
        fn find_one_off_line(customer: CustomerKey, id: OneOffLineId) -> Option<LineId>;
        fn list_one_off_lines(customer: CustomerKey, page: &PageRequest) -> Page<LineId>;
    }

    refuse! {
        fn note_past_due(customer: CustomerKey, id: InvoiceId, at: OffsetDateTime) -> ();
        fn issue(invoice: NewInvoice) -> ();
        fn update(invoice: &Invoice) -> ();
        fn add_payment(customer: CustomerKey, payment: &Payment) -> ();
        fn add_credit_note(note: NewCreditNote) -> CreditNote;
        fn void_credit_note(customer: CustomerKey, id: CreditNoteId, at: OffsetDateTime) -> ();
    }
}

impl CreditRepo for OverLanes<'_, '_> {
    fn customer_of(&mut self, id: CreditId) -> Result<CustomerKey, Error> {
        self.find(Noun::Credit, |tx| tx.credits().customer_of(id))
    }

    in_its_lane! { credits =>
        fn get(customer: CustomerKey, id: CreditId) -> CreditLedger;
        fn list(customer: CustomerKey) -> Vec<CreditLedger>;
        fn list_open(customer: CustomerKey) -> Vec<CreditLedger>;
    }

    refuse! {
        fn insert(customer: CustomerKey, ledger: &CreditLedger) -> ();
        fn update(customer: CustomerKey, ledger: &CreditLedger) -> ();
    }
}

impl EventRepo for OverLanes<'_, '_> {
    fn seen_usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<SeenUsage>, Error> {
        self.of_requests(requests, |request| request.customer, |tx, some| tx.events().seen_usages(some))
    }

    fn warm_up(&mut self, requests: &[UsageRequest]) -> Result<(), Error> {
        let warm_up = |tx: &mut PgTransaction<'_>, some: &[UsageRequest]| {
            tx.events().warm_up(some)?;
            Ok(vec![(); some.len()])
        };
        self.of_requests(requests, |request| request.customer, warm_up).map(drop)
    }

    fn seen_custom_usages(
        &mut self,
        requests: &[CustomUsageRequest],
    ) -> Result<Vec<Result<SeenUsage, CustomFailure>>, Error> {
        self.of_requests(requests, |request| request.customer, |tx, some| tx.events().seen_custom_usages(some))
    }

    fn list(&mut self, filter: &EventFilter, page: &PageRequest) -> Result<Page<KeptEvent>, Error> {
        self.of(filter.customer, |tx| tx.events().list(filter, page))
    }

    fn list_with_id(&mut self, idempotency_id: &str, page: &PageRequest) -> Result<Page<KeptEvent>, Error> {
        let after = page.after.as_deref().map(SharedIdCursor::parse).transpose()?;
        let organization = self.organization();
        let found = self.each(|tx| tx.events_with_id(idempotency_id, after, page.limit))?.into_iter().flatten();
        let mut found: Vec<(SharedIdCursor, KeptEvent)> =
            found.map(|kept| (SharedIdCursor::of(organization, &kept.event), kept)).collect();
        found.sort_by_key(|(place, _)| *place);
        Ok(page_of(found.into_iter().map(|(place, kept)| (place.to_text(), kept)).collect(), page.limit))
    }

    in_its_lane! { events =>
        fn find(customer: CustomerKey, ids: &[String]) -> Vec<KeptEvent>;
        fn next_after(customer: CustomerKey, instant: OffsetDateTime) -> Option<OffsetDateTime>;
        fn histories(customer: CustomerKey, idempotency_id: &str) -> Vec<EventHistory>;
        fn list_corrections(customer: CustomerKey, idempotency_id: &str) -> Vec<EventCorrection>;
    }

    fn count_corrections(&mut self, jobs: &[JobId]) -> Result<BTreeMap<JobId, u64>, Error> {
        let mut counts = BTreeMap::new();
        for (job, count) in self.each(|tx| tx.events().count_corrections(jobs))?.into_iter().flatten() {
            *counts.entry(job).or_default() += count;
        }
        Ok(counts)
    }

    refuse! {
        fn correct(customer: CustomerKey, corrections: &[EventCorrection]) -> ();
    }

    fn missing(
        &mut self,
        customer: Option<CustomerKey>,
        ids: &[String],
        since: OffsetDateTime,
    ) -> Result<Vec<String>, Error> {
        if let Some(owner) = customer {
            return self.of(owner, |tx| tx.events().missing(customer, ids, since));
        }
        let mut missing = ids.to_vec();
        for lane in self.shared().lanes.all() {
            missing = self.ask(lane, |tx| tx.events().missing(None, &missing, since))?;
        }
        Ok(missing)
    }
}
