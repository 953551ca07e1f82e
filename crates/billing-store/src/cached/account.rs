//! What the customer that the transaction is alone with has: read when the transaction began, and again once it is changed.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use billing_domain::Error;
use billing_domain::charge::BillingRecord;
use billing_domain::credit::CreditLedger;
use billing_domain::credit_note::{CreditNote, NewCreditNote};
use billing_domain::id::{CreditId, CreditNoteId, CustomerKey, InvoiceId, LineId, OneOffLineId, SubscriptionId};
use billing_domain::invoice::{Invoice, InvoiceSummary, NewInvoice, PaymentStatus};
use billing_domain::payment::Payment;
use billing_domain::store::{
    BillingRecordRepo, CreditNoteFilter, CreditRepo, InvoiceFilter, InvoiceRepo, Page, PageRequest, SubscriptionRepo,
    Transaction as _,
};
use billing_domain::subscription::Subscription;
use time::{Date, OffsetDateTime};

use super::{CachedTransaction, CustomerSnapshot};
use crate::transaction::hand_on;

/// Methods that change what a snapshot tells: from then on it is read.
macro_rules! change {
    ($repository:ident => $(fn $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            fn $name(&mut self, $($argument: $type),*) -> Result<(), Error> {
                self.snapshot = None;
                self.inner.$repository().$name($($argument),*)
            }
        )*
    };
}

impl CachedTransaction<'_, '_> {
    /// What was read of the customer, as long as nothing of it is changed.
    fn unchanged(&self, customer: CustomerKey) -> Option<&CustomerSnapshot> {
        self.snapshot.as_ref().filter(|snapshot| snapshot.customer.key == customer)
    }
}

impl SubscriptionRepo for CachedTransaction<'_, '_> {
    fn get(&mut self, customer: CustomerKey, id: SubscriptionId) -> Result<Subscription, Error> {
        match self.unchanged(customer).and_then(|snapshot| snapshot.subscription(id)) {
            Some(subscription) => Ok(subscription.clone()),
            None => self.inner.subscriptions().get(customer, id),
        }
    }

    fn list_current(&mut self, customer: CustomerKey, instant: OffsetDateTime) -> Result<Vec<Subscription>, Error> {
        let prefetched = self.prefetched.subscriptions.get(&customer.uuid());
        let prefetched = prefetched.and_then(|held| held.list_current(instant));
        let read = || self.unchanged(customer).and_then(|snapshot| snapshot.list_current(instant));
        match prefetched.or_else(read) {
            Some(current) => Ok(current),
            None => self.inner.subscriptions().list_current(customer, instant),
        }
    }

    change! { subscriptions =>
        fn insert(subscription: &Subscription);
        fn update(subscription: &Subscription);
        fn save(new: &[Subscription], changed: &[Subscription]);
    }

    hand_on! { subscriptions =>
        fn customer_of(id: SubscriptionId) -> CustomerKey;
        fn list(customer: CustomerKey) -> Vec<Subscription>;
        fn list_with_billing(customers: &[CustomerKey]) -> Vec<(Subscription, bool)>;
        fn count_invoicing(customer: CustomerKey, subscriptions: &[SubscriptionId], day: Date) -> Vec<u32>;
    }
}

impl BillingRecordRepo for CachedTransaction<'_, '_> {
    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<BillingRecord>, Error> {
        match self.unchanged(customer) {
            Some(snapshot) => Ok(snapshot.records.clone()),
            None => self.inner.billing_records().list_open(customer),
        }
    }

    change! { billing_records =>
        fn insert(customer: CustomerKey, records: &[BillingRecord]);
        fn update(customer: CustomerKey, record: &BillingRecord);
        fn save(customer: CustomerKey, records: &[BillingRecord]);
    }

    hand_on! { billing_records =>
        fn list_open_of(customers: &[CustomerKey]) -> Vec<BillingRecord>;
        fn list(customer: CustomerKey, subscription: SubscriptionId) -> Vec<BillingRecord>;
    }
}

impl InvoiceRepo for CachedTransaction<'_, '_> {
    fn list_falling_due(&mut self, customer: CustomerKey) -> Result<Vec<(InvoiceId, OffsetDateTime)>, Error> {
        match self.unchanged(customer) {
            Some(snapshot) => Ok(snapshot.falling_due.clone()),
            None => self.inner.invoices().list_falling_due(customer),
        }
    }

    change! { invoices =>
        fn issue(invoice: NewInvoice);
        fn note_past_due(customer: CustomerKey, id: InvoiceId, at: OffsetDateTime);
        fn update(invoice: &Invoice);
        fn add_payment(customer: CustomerKey, payment: &Payment);
        fn void_credit_note(customer: CustomerKey, id: CreditNoteId, at: OffsetDateTime);
    }

    fn add_credit_note(&mut self, note: NewCreditNote) -> Result<CreditNote, Error> {
        self.snapshot = None;
        self.inner.invoices().add_credit_note(note)
    }

    hand_on! { invoices =>
        fn get(id: InvoiceId) -> Invoice;
        fn list_by_id(ids: &[(CustomerKey, InvoiceId)]) -> Vec<Invoice>;
        fn list_payments(customer: CustomerKey, invoice: Option<InvoiceId>) -> Vec<Payment>;
        fn get_credit_note(id: CreditNoteId) -> CreditNote;
        fn list_credit_notes(filter: &CreditNoteFilter, page: &PageRequest) -> Page<CreditNote>;
        fn list_with_usage_at(customer: CustomerKey, times: &[OffsetDateTime]) -> Vec<InvoiceId>;
        fn find_one_off_line(customer: CustomerKey, id: OneOffLineId) -> Option<LineId>;
        fn list_one_off_lines(customer: CustomerKey, page: &PageRequest) -> Page<LineId>;
        fn find_by_number(number: &str) -> Option<InvoiceId>;
        fn list_of(customers: &[CustomerKey], statuses: &[PaymentStatus], each: u32) -> Vec<InvoiceSummary>;
        fn due_of(customers: &[CustomerKey]) -> BTreeMap<CustomerKey, BTreeMap<String, BigDecimal>>;
        fn list(filter: &InvoiceFilter, page: &PageRequest) -> Page<Invoice>;
    }
}

impl CreditRepo for CachedTransaction<'_, '_> {
    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<CreditLedger>, Error> {
        match self.unchanged(customer) {
            Some(snapshot) if !snapshot.has_credit => Ok(Vec::new()),
            _ => self.inner.credits().list_open(customer),
        }
    }

    change! { credits =>
        fn insert(customer: CustomerKey, ledger: &CreditLedger);
        fn update(customer: CustomerKey, ledger: &CreditLedger);
    }

    hand_on! { credits =>
        fn customer_of(id: CreditId) -> CustomerKey;
        fn get(customer: CustomerKey, id: CreditId) -> CreditLedger;
        fn list(customer: CustomerKey) -> Vec<CreditLedger>;
    }
}
