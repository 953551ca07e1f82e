//! One customer's turn in a batch: reads come from the snapshot, writes go to the buffer. What is not in the snapshot takes a
//! statement, and no statement is sent for one customer of a batch alone: it falls back to a transaction of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use bigdecimal::BigDecimal;
use billing_domain::charge::BillingRecord;
use billing_domain::credit::CreditLedger;
use billing_domain::credit_note::{CreditNote, NewCreditNote};
use billing_domain::custom_sql::{CustomFailure, CustomUsageRequest};
use billing_domain::customer::Customer;
use billing_domain::event::{EventCorrection, EventHistory, KeptEvent};
use billing_domain::id::{
    CreditId, CreditNoteId, CustomerKey, InvoiceId, JobId, LineId, MessageId, OneOffLineId, OrganizationId,
    SubscriptionId, UsageAlertId,
};
use billing_domain::invoice::{Invoice, InvoiceSummary, NewInvoice, PaymentStatus};
use billing_domain::message::Message;
use billing_domain::payment::Payment;
use billing_domain::store::{
    AddonRepo, ApiKeyRepo, ApprovalRepo, AuditRepo, BillingRecordRepo, BooksAuditRepo, CreditNoteFilter, CreditRepo,
    CurrencyRepo, CustomerRepo, EventFilter, EventRepo, FeatureRepo, FeedPage, FeedRequest, IdentityRepo,
    InvoiceFilter, InvoiceRepo, JobRepo, MemberRepo, MessageRepo, MetricRepo, OrganizationRepo, Page, PageRequest,
    PlanRepo, Renderer, SearchedBy, SubscriptionRepo, TestClockRepo, Transaction, UsageAlertRepo, WebhookRepo,
};
use billing_domain::subscription::Subscription;
use billing_domain::usage::{SeenUsage, UsageRequest};
use billing_domain::usage_alert::{Firing, UsageAlert};
use billing_domain::{Error, StoreError};
use time::{Date, OffsetDateTime};
use uuid::Uuid;

use super::write_buffer::WriteBuffer;
use crate::cached::{CachedTransaction, CustomerSnapshot};
use crate::pg::column::count;
use crate::transaction::{PastDue, hand_on, repositories};

/// What became of one customer's turn.
pub(super) enum Turn {
    /// This is to be written.
    Done(Box<WriteBuffer>),
    /// To go on, it needs this.
    Asked(Box<(CustomerSnapshot, Needed)>),
    /// It gets a transaction of its own.
    FellBack,
}

/// What is not read of every customer, but for those of a batch who need it together.
pub(super) enum Needed {
    /// The usage behind these requests.
    Usage(Vec<UsageRequest>),
    /// Which usage alerts have fired.
    Firings,
}

/// A transaction as one customer of a batch has it.
pub(super) struct BatchTransaction<'t, 'c> {
    inner: CachedTransaction<'t, 'c>,
    snapshot: CustomerSnapshot,
    /// What it has done so far.
    writes: WriteBuffer,
    invoices: Vec<NewInvoice>,
    /// What it needs to go on.
    asked: Option<Needed>,
}

impl<'t, 'c> BatchTransaction<'t, 'c> {
    /// The turn of the customer of the snapshot. What is read of the catalogue is everybody's, whoever of a batch it is for.
    pub(super) fn begin(inner: CachedTransaction<'t, 'c>, snapshot: CustomerSnapshot) -> Self {
        let inner = inner.with_customer(Some(snapshot.customer.clone())).always_reading_catalog();
        inner.inner.refuse_statements();
        Self { inner, snapshot, writes: WriteBuffer::default(), invoices: Vec::new(), asked: None }
    }

    /// Ends the turn, in which the work came to `result`.
    pub(super) fn end(self, result: Result<(), Error>) -> Turn {
        let has_missed = self.inner.inner.allow_statements();
        match self.asked {
            Some(needed) => Turn::Asked(Box::new((self.snapshot, needed))),
            None if has_missed || result.is_err() => Turn::FellBack,
            None => Turn::Done(Box::new(self.writes.with_invoices(self.invoices))),
        }
    }

    /// Ends the work with what it needs, with which it is begun again.
    fn needs(&mut self, needed: Needed) -> Error {
        self.asked = Some(needed);
        StoreError::Internal("what is read for all of a batch at once".to_owned()).into()
    }

    /// What was read of the customer, as long as it has changed nothing.
    fn unchanged(&self, customer: CustomerKey) -> Option<&CustomerSnapshot> {
        (self.snapshot.customer.key == customer && self.writes.is_empty()).then_some(&self.snapshot)
    }
}

impl Transaction for BatchTransaction<'_, '_> {
    fn organization(&self) -> OrganizationId {
        self.inner.organization()
    }

    fn new_uuid(&mut self) -> Uuid {
        self.inner.new_uuid()
    }

    repositories! { self =>
        customers: CustomerRepo,
        subscriptions: SubscriptionRepo,
        billing_records: BillingRecordRepo,
        invoices: InvoiceRepo,
        credits: CreditRepo,
        events: EventRepo,
        messages: MessageRepo,
        usage_alerts: UsageAlertRepo,
    }

    repositories! { inner =>
        organizations: OrganizationRepo,
        api_keys: ApiKeyRepo,
        currencies: CurrencyRepo,
        metrics: MetricRepo,
        features: FeatureRepo,
        plans: PlanRepo,
        addons: AddonRepo,
        test_clocks: TestClockRepo,
        webhooks: WebhookRepo,
        jobs: JobRepo,
        books_audits: BooksAuditRepo,
        members: MemberRepo,
        identities: IdentityRepo,
        approvals: ApprovalRepo,
        audit_log: AuditRepo,
    }
}

impl CustomerRepo for BatchTransaction<'_, '_> {
    fn advance_instant_and_queue(
        &mut self,
        key: CustomerKey,
        instant: OffsetDateTime,
        due_at: Option<OffsetDateTime>,
    ) -> Result<(), Error> {
        self.writes.advance_instant_and_queue(key, instant, due_at);
        Ok(())
    }

    hand_on! { customers =>
        fn insert(customer: &Customer) -> ();
        fn get(key: CustomerKey) -> Customer;
        fn get_even_deleted(key: CustomerKey) -> Customer;
        fn update(customer: &Customer) -> ();
        fn list(page: &PageRequest) -> Page<Customer>;
        fn find_by_email(email: &str) -> Option<CustomerKey>;
        fn search(by: SearchedBy, beginning: &str, limit: u32) -> Vec<Customer>;
        fn now(key: CustomerKey) -> OffsetDateTime;
        fn nows(keys: &[CustomerKey]) -> Vec<OffsetDateTime>;
        fn advance_instant(key: CustomerKey, instant: OffsetDateTime) -> ();
        fn set_billing_due(key: CustomerKey, due_at: Option<OffsetDateTime>) -> ();
        fn set_catching_up(key: CustomerKey, catching_up: bool) -> ();
        fn park_billing(key: CustomerKey, failures: u32, reason: &str) -> bool;
        fn retry_billing(key: CustomerKey) -> bool;
    }
}

impl SubscriptionRepo for BatchTransaction<'_, '_> {
    fn get(&mut self, customer: CustomerKey, id: SubscriptionId) -> Result<Subscription, Error> {
        match self.unchanged(customer).and_then(|snapshot| snapshot.subscription(id)) {
            Some(subscription) => Ok(subscription.clone()),
            None => self.inner.subscriptions().get(customer, id),
        }
    }

    fn list_current(&mut self, customer: CustomerKey, instant: OffsetDateTime) -> Result<Vec<Subscription>, Error> {
        match self.unchanged(customer).and_then(|snapshot| snapshot.list_current(instant)) {
            Some(current) => Ok(current),
            None => self.inner.subscriptions().list_current(customer, instant),
        }
    }

    fn save(&mut self, new: &[Subscription], changed: &[Subscription]) -> Result<(), Error> {
        self.writes.save_subscriptions(new, changed);
        Ok(())
    }

    fn count_invoicing(
        &mut self,
        _: CustomerKey,
        subscriptions: &[SubscriptionId],
        day: Date,
    ) -> Result<Vec<u32>, Error> {
        let (customer, stored) = (self.snapshot.customer.key, &self.snapshot);
        let mut counted = |id| self.writes.count_invoicing(customer, id, stored.invoicings(id), day);
        subscriptions.iter().map(|id| count(counted(*id))).collect()
    }

    hand_on! { subscriptions =>
        fn insert(subscription: &Subscription) -> ();
        fn customer_of(id: SubscriptionId) -> CustomerKey;
        fn list(customer: CustomerKey) -> Vec<Subscription>;
        fn list_with_billing(customers: &[CustomerKey]) -> Vec<(Subscription, bool)>;
        fn update(subscription: &Subscription) -> ();
    }
}

impl BillingRecordRepo for BatchTransaction<'_, '_> {
    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<BillingRecord>, Error> {
        match self.unchanged(customer) {
            Some(snapshot) => Ok(snapshot.records.clone()),
            None => self.inner.billing_records().list_open(customer),
        }
    }

    fn save(&mut self, customer: CustomerKey, records: &[BillingRecord]) -> Result<(), Error> {
        self.writes.save_records(customer, records);
        Ok(())
    }

    hand_on! { billing_records =>
        fn insert(customer: CustomerKey, records: &[BillingRecord]) -> ();
        fn list_open_of(customers: &[CustomerKey]) -> Vec<BillingRecord>;
        fn list(customer: CustomerKey, subscription: SubscriptionId) -> Vec<BillingRecord>;
        fn update(customer: CustomerKey, record: &BillingRecord) -> ();
    }
}

impl InvoiceRepo for BatchTransaction<'_, '_> {
    fn issue(&mut self, invoice: NewInvoice) -> Result<(), Error> {
        self.invoices.push(invoice);
        Ok(())
    }

    fn list_falling_due(&mut self, customer: CustomerKey) -> Result<Vec<(InvoiceId, OffsetDateTime)>, Error> {
        match self.unchanged(customer) {
            Some(snapshot) => Ok(snapshot.falling_due.clone()),
            None => self.inner.invoices().list_falling_due(customer),
        }
    }

    fn note_past_due(&mut self, customer: CustomerKey, id: InvoiceId, at: OffsetDateTime) -> Result<(), Error> {
        self.writes.note_past_due(PastDue { customer, invoice: id, at });
        Ok(())
    }

    hand_on! { invoices =>
        fn list_by_id(ids: &[(CustomerKey, InvoiceId)]) -> Vec<Invoice>;
        fn get(id: InvoiceId) -> Invoice;
        fn update(invoice: &Invoice) -> ();
        fn add_payment(customer: CustomerKey, payment: &Payment) -> ();
        fn list_payments(customer: CustomerKey, invoice: Option<InvoiceId>) -> Vec<Payment>;
        fn add_credit_note(note: NewCreditNote) -> CreditNote;
        fn void_credit_note(customer: CustomerKey, id: CreditNoteId, at: OffsetDateTime) -> ();
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

impl MessageRepo for BatchTransaction<'_, '_> {
    fn renderer(&self) -> Arc<dyn Renderer> {
        self.inner.inner.renderer()
    }

    fn new_id(&mut self) -> MessageId {
        self.inner.messages().new_id()
    }

    fn insert(&mut self, message: Message) -> Result<(), Error> {
        self.writes.insert_message(message);
        Ok(())
    }

    hand_on! { messages =>
        fn get(id: MessageId) -> Message;
        fn list_by_id(ids: &[MessageId]) -> Vec<(u64, Message)>;
        fn list(wanted: &FeedRequest) -> FeedPage;
        fn list_of(customer: CustomerKey, page: &PageRequest) -> Page<Message>;
    }
}

impl UsageAlertRepo for BatchTransaction<'_, '_> {
    fn has_fired(&mut self, firing: &Firing) -> Result<bool, Error> {
        match self.snapshot.has_fired(firing) {
            Some(has_fired) => Ok(has_fired || self.writes.has_fired(firing)),
            None => Err(self.needs(Needed::Firings)),
        }
    }

    fn insert_firing(&mut self, firing: &Firing, at: OffsetDateTime) -> Result<(), Error> {
        self.writes.insert_firing(*firing, at);
        Ok(())
    }

    hand_on! { usage_alerts =>
        fn insert(alert: &UsageAlert) -> ();
        fn get(id: UsageAlertId) -> UsageAlert;
        fn list() -> Vec<UsageAlert>;
        fn delete(id: UsageAlertId) -> ();
        fn mark(customer: CustomerKey) -> ();
    }
}

impl CreditRepo for BatchTransaction<'_, '_> {
    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<CreditLedger>, Error> {
        match self.unchanged(customer) {
            Some(snapshot) if !snapshot.has_credit => Ok(Vec::new()),
            _ => self.inner.credits().list_open(customer),
        }
    }

    hand_on! { credits =>
        fn insert(customer: CustomerKey, ledger: &CreditLedger) -> ();
        fn customer_of(id: CreditId) -> CustomerKey;
        fn get(customer: CustomerKey, id: CreditId) -> CreditLedger;
        fn list(customer: CustomerKey) -> Vec<CreditLedger>;
        fn update(customer: CustomerKey, ledger: &CreditLedger) -> ();
    }
}

impl EventRepo for BatchTransaction<'_, '_> {
    /// The usage behind all of these requests from one statement, once that has been read.
    fn seen_usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<SeenUsage>, Error> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(usages) = self.snapshot.usages(requests) {
            return Ok(usages);
        }
        Err(self.needs(Needed::Usage(requests.to_vec())))
    }

    hand_on! { events =>
        fn warm_up(requests: &[UsageRequest]) -> ();
        fn seen_custom_usages(requests: &[CustomUsageRequest]) -> Vec<Result<SeenUsage, CustomFailure>>;
        fn list(filter: &EventFilter, page: &PageRequest) -> Page<KeptEvent>;
        fn list_with_id(idempotency_id: &str, page: &PageRequest) -> Page<KeptEvent>;
        fn find(customer: CustomerKey, ids: &[String]) -> Vec<KeptEvent>;
        fn correct(customer: CustomerKey, corrections: &[EventCorrection]) -> ();
        fn histories(customer: CustomerKey, idempotency_id: &str) -> Vec<EventHistory>;
        fn count_corrections(jobs: &[JobId]) -> BTreeMap<JobId, u64>;
        fn list_corrections(customer: CustomerKey, idempotency_id: &str) -> Vec<EventCorrection>;
        fn next_after(customer: CustomerKey, instant: OffsetDateTime) -> Option<OffsetDateTime>;
        fn missing(customer: Option<CustomerKey>, ids: &[String], since: OffsetDateTime) -> Vec<String>;
    }
}
