//! Shows what a change of a subscription would be invoiced with, by making it.
//!
//! It is for a transaction that is undone. No number is taken for the invoices it shows: they are looked at on their way to the store.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use time::OffsetDateTime;
use uuid::Uuid;

use super::account::Account;
use super::bill_customer::finish_due_of;
use super::create_subscription::{CreateSubscription, create_subscription};
use super::draft_invoice::{DraftedInvoice, draft_of};
use crate::credit_note::{CreditNote, NewCreditNote};
use crate::error::Error;
use crate::id::{CreditNoteId, CustomerKey, InvoiceId, LineId, OneOffLineId, OrganizationId, SubscriptionId};
use crate::invoice::{Invoice, InvoiceSummary, NewInvoice, PaymentStatus};
use crate::message::NewSubscription;
use crate::payment::Payment;
use crate::store::{
    AddonRepo, BillingRecordRepo, CreditNoteFilter, CreditRepo, CurrencyRepo, CustomerRepo, EventRepo, FeatureRepo,
    InvoiceFilter, InvoiceRepo, MessageRepo, MetricRepo, OrganizationRepo, Page, PageRequest, PlanRepo,
    SubscriptionRepo, TestClockRepo, Transaction,
};
#[cfg(feature = "service")]
use crate::store::{
    ApiKeyRepo, ApprovalRepo, AuditRepo, BooksAuditRepo, IdentityRepo, JobRepo, MemberRepo, UsageAlertRepo, WebhookRepo,
};

/// What a change would come to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChangePreview<T> {
    /// What the change makes.
    pub changed: T,
    /// The invoices that it issues at once, credits drawn. What was due of the customer anyway is not among them.
    pub invoices: Vec<DraftedInvoice>,
    /// Drafts of the customer's next invoices as they are without the change, what is due by now done.
    pub drafts_before: Vec<DraftedInvoice>,
    /// The same with the change.
    pub drafts: Vec<DraftedInvoice>,
    /// Whether that is all; otherwise the change reaches so far back that the customer catches up with the rest later.
    pub is_complete: bool,
}

/// Shows what a new subscription would come to.
///
/// # Errors
/// As [`create_subscription`].
pub fn preview_new_subscription(
    tx: &mut dyn Transaction,
    command: &CreateSubscription,
    now: OffsetDateTime,
) -> Result<ChangePreview<NewSubscription>, Error> {
    let customer = CustomerKey::derive(tx.organization(), &command.customer);
    command.faults(tx, customer, now)?.finish(())?;
    preview(tx, customer, None, now, &mut |tx, _| create_subscription(tx, command, now))
}

/// Shows what `change` of a subscription would come to. It is given the id of the subscription to change: that of the renewal where the
/// renewal was due and is only made now, as in the calls themselves.
///
/// # Errors
/// Those of `change`; [`Refusal::TestClockAdvancing`](crate::Refusal::TestClockAdvancing),
/// [`Refusal::CatchingUp`](crate::Refusal::CatchingUp).
pub fn preview_change<T>(
    tx: &mut dyn Transaction,
    (customer, subscription): (CustomerKey, SubscriptionId),
    now: OffsetDateTime,
    change: &mut dyn FnMut(&mut dyn Transaction, SubscriptionId) -> Result<T, Error>,
) -> Result<ChangePreview<T>, Error> {
    preview(tx, customer, Some(subscription), now, &mut |tx, moved| change(tx, moved.unwrap_or(subscription)))
}

fn preview<T>(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    subscription: Option<SubscriptionId>,
    now: OffsetDateTime,
    change: &mut dyn FnMut(&mut dyn Transaction, Option<SubscriptionId>) -> Result<T, Error>,
) -> Result<ChangePreview<T>, Error> {
    let mut account = Account::load(tx, customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    let meant = subscription.unwrap_or_else(|| Uuid::nil().into());
    let moved = finish_due_of(tx, &mut account, meant, now)?;
    drop(account);
    let drafts_before = drafts(tx, customer, now)?;
    let mut looking = IssueWitness { inner: tx, issued: Vec::new() };
    let changed = change(&mut looking, subscription.map(|_| moved))?;
    let issued = looking.issued;
    let drafts = drafts(tx, customer, now)?;
    let is_complete = !tx.customers().get(customer)?.catching_up;
    let invoices = issued.into_iter().map(|invoice| DraftedInvoice {
        id: invoice.id,
        amount: invoice.amount(),
        currency: invoice.currency,
        issued_at: invoice.issued_at,
        due_at: invoice.due_at,
        lines: invoice.lines,
    });
    Ok(ChangePreview { changed, invoices: invoices.collect(), drafts_before, drafts, is_complete })
}

fn drafts(tx: &mut dyn Transaction, customer: CustomerKey, now: OffsetDateTime) -> Result<Vec<DraftedInvoice>, Error> {
    let customer = tx.customers().get(customer)?;
    draft_of(tx, &customer, true, now)
}

/// A transaction that keeps in mind which invoices were issued in it.
struct IssueWitness<'t> {
    inner: &'t mut dyn Transaction,
    issued: Vec<NewInvoice>,
}

/// Methods that are those of the transaction within.
macro_rules! hand_on {
    ($($(#[$cfg:meta])* $name:ident: $repo:ty;)*) => {
        $($(#[$cfg])* fn $name(&mut self) -> &mut $repo { self.inner.$name() })*
    };
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&mut self, $($argument: $type),*) -> Result<$answer, Error> { self.inner.invoices().$name($($argument),*) })*
    };
}

impl Transaction for IssueWitness<'_> {
    fn organization(&self) -> OrganizationId {
        self.inner.organization()
    }

    fn new_uuid(&mut self) -> Uuid {
        self.inner.new_uuid()
    }

    fn invoices(&mut self) -> &mut dyn InvoiceRepo {
        self
    }

    hand_on! {
        organizations: dyn OrganizationRepo;
        #[cfg(feature = "service")]
        api_keys: dyn ApiKeyRepo;
        currencies: dyn CurrencyRepo;
        metrics: dyn MetricRepo;
        features: dyn FeatureRepo;
        plans: dyn PlanRepo;
        addons: dyn AddonRepo;
        test_clocks: dyn TestClockRepo;
        customers: dyn CustomerRepo;
        subscriptions: dyn SubscriptionRepo;
        billing_records: dyn BillingRecordRepo;
        credits: dyn CreditRepo;
        events: dyn EventRepo;
        messages: dyn MessageRepo;
        #[cfg(feature = "service")]
        approvals: dyn ApprovalRepo;
        #[cfg(feature = "service")]
        audit_log: dyn AuditRepo;
        #[cfg(feature = "service")]
        members: dyn MemberRepo;
        #[cfg(feature = "service")]
        identities: dyn IdentityRepo;
        #[cfg(feature = "service")]
        jobs: dyn JobRepo;
        #[cfg(feature = "service")]
        books_audits: dyn BooksAuditRepo;
        #[cfg(feature = "service")]
        usage_alerts: dyn UsageAlertRepo;
        #[cfg(feature = "service")]
        webhooks: dyn WebhookRepo;
    }
}

impl InvoiceRepo for IssueWitness<'_> {
    fn issue(&mut self, invoice: NewInvoice) -> Result<(), Error> {
        self.issued.push(invoice.clone());
        self.inner.invoices().issue(invoice)
    }

    hand_on! {
        fn get(id: InvoiceId) -> Invoice;
        fn update(invoice: &Invoice) -> ();
        fn list_falling_due(customer: CustomerKey) -> Vec<(InvoiceId, OffsetDateTime)>;
        fn note_past_due(customer: CustomerKey, id: InvoiceId, at: OffsetDateTime) -> ();
        fn list_by_id(ids: &[(CustomerKey, InvoiceId)]) -> Vec<Invoice>;
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
