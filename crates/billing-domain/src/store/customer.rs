//! Repositories of what belongs to one customer: subscriptions, billing records, invoices, credits.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use time::{Date, OffsetDateTime};

use super::{Page, PageRequest};
use crate::charge::BillingRecord;
use crate::credit::CreditLedger;
use crate::credit_note::{CreditNote, NewCreditNote};
use crate::customer::Customer;
use crate::error::Error;
use crate::id::{CreditId, CreditNoteId, CustomerKey, InvoiceId, LineId, OneOffLineId, SubscriptionId};
use crate::invoice::{Invoice, InvoiceSummary, NewInvoice, PaymentStatus};
use crate::payment::Payment;
use crate::subscription::Subscription;

/// What customers are searched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchedBy {
    /// The caller's own id.
    Id,
    /// The name.
    Name,
}

impl SearchedBy {
    /// Characters of an id or a name that a search looks at.
    pub const CHARACTERS: usize = 100;

    /// What a search makes of an id, a name or what is searched for: letters of ASCII are as good as others of their kind, whatever a
    /// database thinks of other letters.
    pub fn folded(text: &str) -> String {
        text.chars().take(Self::CHARACTERS).collect::<String>().to_ascii_lowercase()
    }

    /// What of a customer is searched.
    pub fn of(self, customer: &Customer) -> Option<String> {
        match self {
            Self::Id => Some(Self::folded(customer.id.as_str())),
            Self::Name => customer.fields.name.as_deref().map(Self::folded),
        }
    }
}

/// Customers of the organization.
pub trait CustomerRepo {
    /// Keeps a new customer.
    ///
    /// # Errors
    /// [`Refusal::DuplicateResource`](crate::Refusal::DuplicateResource) when its id or e-mail is taken.
    fn insert(&mut self, customer: &Customer) -> Result<(), Error>;
    /// The customer; one that was deleted is not found.
    fn get(&mut self, key: CustomerKey) -> Result<Customer, Error>;
    /// The customer, deleted or not.
    fn get_even_deleted(&mut self, key: CustomerKey) -> Result<Customer, Error>;
    /// Who has this e-mail address.
    fn find_by_email(&mut self, email: &str) -> Result<Option<CustomerKey>, Error>;
    /// Writes back what can change: all but id, clock, creation and whether it is catching up.
    ///
    /// # Errors
    /// [`Refusal::DuplicateResource`](crate::Refusal::DuplicateResource) when its e-mail is taken.
    fn update(&mut self, customer: &Customer) -> Result<(), Error>;
    /// All customers that were not deleted, in order of creation.
    fn list(&mut self, page: &PageRequest) -> Result<Page<Customer>, Error>;
    /// At most `limit` customers that were not deleted and whose id or name begins with `beginning`, both [folded](SearchedBy::folded), in
    /// the order of what is searched and then of their keys.
    fn search(&mut self, by: SearchedBy, beginning: &str, limit: u32) -> Result<Vec<Customer>, Error>;
    /// The customer's now: as [`Store::run`](super::Store::run) gives it under [`Scope::Customer`](super::Scope::Customer), from any scope.
    fn now(&mut self, key: CustomerKey) -> Result<OffsetDateTime, Error>;
    /// [`CustomerRepo::now`] of many, in their order.
    fn nows(&mut self, keys: &[CustomerKey]) -> Result<Vec<OffsetDateTime>, Error>;
    /// Moves the instant before which the customer's now can never be; earlier instants change nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn advance_instant(&mut self, key: CustomerKey, instant: OffsetDateTime) -> Result<(), Error>;
    /// When the customer next has something to be billed or renewed; `None`: never. Kept only for customers
    /// in real time: a test clock's customers are driven by their clock. Earlier failures are forgotten.
    fn set_billing_due(&mut self, key: CustomerKey, due_at: Option<OffsetDateTime>) -> Result<(), Error>;
    /// [`CustomerRepo::advance_instant`] and [`CustomerRepo::set_billing_due`] in one.
    fn advance_instant_and_queue(
        &mut self,
        key: CustomerKey,
        instant: OffsetDateTime,
        due_at: Option<OffsetDateTime>,
    ) -> Result<(), Error> {
        self.advance_instant(key, instant)?;
        self.set_billing_due(key, due_at)
    }
    /// Leaves the billing of a customer alone that was leased after so many failures and has failed again, until
    /// [`release_parked`](super::BillingQueue::release_parked); whether it was, for one that was billed meanwhile is left as it is.
    #[cfg(feature = "service")]
    fn park_billing(&mut self, key: CustomerKey, failures: u32, reason: &str) -> Result<bool, Error>;
    /// Has the billing of a customer tried again that failed, parked or not, as if it never had; whether it had.
    #[cfg(feature = "service")]
    fn retry_billing(&mut self, key: CustomerKey) -> Result<bool, Error>;
    /// Notes whether something that fell due in the past is still to be billed: [`Customer::catching_up`].
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn set_catching_up(&mut self, key: CustomerKey, catching_up: bool) -> Result<(), Error>;
}

/// Subscriptions of the organization's customers.
pub trait SubscriptionRepo {
    /// Keeps a new subscription.
    ///
    /// # Errors
    /// [`Refusal::OverlappingPlans`](crate::Refusal::OverlappingPlans) as the last wall.
    fn insert(&mut self, subscription: &Subscription) -> Result<(), Error>;
    /// The customer that holds the subscription: the way from an id alone to its scope. A subscription that was
    /// replaced by a switch is not found: its id is no longer valid. Nor is an attached add-on: it is reached by
    /// its parent.
    fn customer_of(&mut self, id: SubscriptionId) -> Result<CustomerKey, Error>;
    /// The subscription, replaced or not.
    fn get(&mut self, customer: CustomerKey, id: SubscriptionId) -> Result<Subscription, Error>;
    /// Everything a customer holds or held, add-ons too, by start, then by id, but for what was replaced by a switch.
    fn list(&mut self, customer: CustomerKey) -> Result<Vec<Subscription>, Error>;
    /// [`SubscriptionRepo::list`] of many customers at once: for each by start, then by id. With every subscription comes
    /// whether all its records are billed: none of them has an invoicing instant to come.
    fn list_with_billing(&mut self, customers: &[CustomerKey]) -> Result<Vec<(Subscription, bool)>, Error>;
    /// Of [`SubscriptionRepo::list`], what ends after `instant` or still awaits renewal.
    fn list_current(&mut self, customer: CustomerKey, instant: OffsetDateTime) -> Result<Vec<Subscription>, Error>;
    /// Writes back what can change.
    fn update(&mut self, subscription: &Subscription) -> Result<(), Error>;
    /// [`SubscriptionRepo::update`] of those that changed, then [`SubscriptionRepo::insert`] of new ones, all of one
    /// customer's.
    fn save(&mut self, new: &[Subscription], changed: &[Subscription]) -> Result<(), Error>;
    /// Counts one more scheduled invoicing of each of a customer's subscriptions on a UTC day, and answers how many each
    /// has had on that day, in the same order. Only the latest day is remembered; what is of an earlier one counts as of it.
    fn count_invoicing(
        &mut self,
        customer: CustomerKey,
        subscriptions: &[SubscriptionId],
        day: Date,
    ) -> Result<Vec<u32>, Error>;
}

/// Billing records of the organization's customers.
pub trait BillingRecordRepo {
    /// Keeps new records of one customer.
    fn insert(&mut self, customer: CustomerKey, records: &[BillingRecord]) -> Result<(), Error>;
    /// The customer's records that have an invoicing instant to come or wait for late events, by
    /// [`BillingRecord::next_due_at`], then in order of making.
    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<BillingRecord>, Error>;
    /// [`BillingRecordRepo::list_open`] of many customers at once, in any order.
    fn list_open_of(&mut self, customers: &[CustomerKey]) -> Result<Vec<BillingRecord>, Error>;
    /// All records of one subscription, in order of making.
    fn list(&mut self, customer: CustomerKey, subscription: SubscriptionId) -> Result<Vec<BillingRecord>, Error>;
    /// Writes back what was billed and when the next invoicing is.
    fn update(&mut self, customer: CustomerKey, record: &BillingRecord) -> Result<(), Error>;
    /// [`BillingRecordRepo::insert`] of those records that this transaction has not read, and
    /// [`BillingRecordRepo::update`] of the others. New ones are in order of making.
    fn save(&mut self, customer: CustomerKey, records: &[BillingRecord]) -> Result<(), Error>;
}

/// Which invoices are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvoiceFilter {
    /// Only those of these customers; `None`: all.
    pub customers: Option<Vec<CustomerKey>>,
    /// Only with one of these statuses; `None`: all.
    pub statuses: Option<Vec<PaymentStatus>>,
}

impl InvoiceFilter {
    /// All of one customer's.
    pub fn of(customer: CustomerKey) -> Self {
        Self { customers: Some(vec![customer]), statuses: None }
    }
}

/// Which credit notes are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreditNoteFilter {
    /// Only this customer's.
    pub customer: Option<CustomerKey>,
    /// Only those of this invoice.
    pub invoice: Option<InvoiceId>,
}

/// Invoices of the organization.
pub trait InvoiceRepo {
    /// Gives an invoice the next number of the organization's gap-free sequence and keeps it for good.
    ///
    /// Whoever issues next waits for this transaction to end, so a store may put it off until the work is done, or until
    /// an invoice is read. Invoices are numbered in the order in which they were issued.
    ///
    /// # Errors
    /// [`StoreError::Internal`](crate::StoreError::Internal); from a store that puts it off, when the work is done.
    fn issue(&mut self, invoice: NewInvoice) -> Result<(), Error>;
    /// The invoice with its lines.
    fn get(&mut self, id: InvoiceId) -> Result<Invoice, Error>;
    /// Writes back that it was voided, and when. Its payments move what is paid of it; nothing else of an issued invoice ever changes.
    fn update(&mut self, invoice: &Invoice) -> Result<(), Error>;
    /// The customer's unpaid invoices that have a due date and were not noted as past due, in any order, with the instant at
    /// which they fall due: on that date, or when the reversal of a payment made them unpaid again after it.
    fn list_falling_due(&mut self, customer: CustomerKey) -> Result<Vec<(InvoiceId, OffsetDateTime)>, Error>;
    /// Notes that an invoice fell due at an instant and was not paid. A store may put it off until the work is done.
    fn note_past_due(&mut self, customer: CustomerKey, id: InvoiceId, at: OffsetDateTime) -> Result<(), Error>;
    /// Those of these invoices of customers that there are, with their lines, in any order.
    fn list_by_id(&mut self, ids: &[(CustomerKey, InvoiceId)]) -> Result<Vec<Invoice>, Error>;
    /// Appends a payment, or the reversal of one, to the ledger of an invoice of the customer's, and has what is paid of the invoice
    /// and its payment status follow.
    ///
    /// # Errors
    /// [`Error::NotFound`]; as the last wall [`Refusal::DuplicateResource`](crate::Refusal::DuplicateResource) for a reference that the
    /// invoice has from a payment of the same method, [`Refusal::PaymentReversed`](crate::Refusal::PaymentReversed) for a second reversal,
    /// [`Refusal::InvoiceVoided`](crate::Refusal::InvoiceVoided).
    fn add_payment(&mut self, customer: CustomerKey, payment: &Payment) -> Result<(), Error>;
    /// Payments and reversals of one of the customer's invoices, or of all, in the order in which they were noted.
    fn list_payments(&mut self, customer: CustomerKey, invoice: Option<InvoiceId>) -> Result<Vec<Payment>, Error>;
    /// Gives a credit note the next number of the organization's gap-free sequence of credit notes and keeps it for good. Whoever
    /// issues next waits for this transaction to end, so it comes last; its entry in the ledger of the invoice comes behind it.
    ///
    /// # Errors
    /// [`Error::NotFound`]; as the last wall [`Refusal::CreditExceedsLine`](crate::Refusal::CreditExceedsLine) when it takes more than
    /// is left of a line.
    fn add_credit_note(&mut self, note: NewCreditNote) -> Result<CreditNote, Error>;
    /// Notes that a credit note of the customer's was voided, and when.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none that stands.
    fn void_credit_note(&mut self, customer: CustomerKey, id: CreditNoteId, at: OffsetDateTime) -> Result<(), Error>;
    /// The credit note with its lines.
    fn get_credit_note(&mut self, id: CreditNoteId) -> Result<CreditNote, Error>;
    /// Credit notes with their lines, newest first.
    fn list_credit_notes(&mut self, filter: &CreditNoteFilter, page: &PageRequest) -> Result<Page<CreditNote>, Error>;
    /// The customer's invoices with a line for usage of a time that one of these instants is in, in any order.
    fn list_with_usage_at(&mut self, customer: CustomerKey, times: &[OffsetDateTime]) -> Result<Vec<InvoiceId>, Error>;
    /// The line of the customer's invoice that bills a one-off line; of several, where invoices were issued anew, the newest.
    fn find_one_off_line(&mut self, customer: CustomerKey, id: OneOffLineId) -> Result<Option<LineId>, Error>;
    /// The lines of the customer's invoices that bill one-off lines, newest invoices first; none of an invoice that was issued anew.
    fn list_one_off_lines(&mut self, customer: CustomerKey, page: &PageRequest) -> Result<Page<LineId>, Error>;
    /// The id behind an invoice number.
    fn find_by_number(&mut self, number: &str) -> Result<Option<InvoiceId>, Error>;
    /// The newest invoices of each of these customers that have one of the statuses, at most `each` of every customer's;
    /// newest first, no line is read.
    fn list_of(
        &mut self,
        customers: &[CustomerKey],
        statuses: &[PaymentStatus],
        each: u32,
    ) -> Result<Vec<InvoiceSummary>, Error>;
    /// What is due of the unpaid invoices of each of these customers, in each currency, by its code; who has none is left
    /// out, and so is a currency without one.
    fn due_of(
        &mut self,
        customers: &[CustomerKey],
    ) -> Result<BTreeMap<CustomerKey, BTreeMap<String, BigDecimal>>, Error>;
    /// Invoices with their lines, newest first.
    fn list(&mut self, filter: &InvoiceFilter, page: &PageRequest) -> Result<Page<Invoice>, Error>;
}

/// Credits of the organization's customers, each with its ledger.
pub trait CreditRepo {
    /// Keeps a new credit and the entries of its ledger.
    fn insert(&mut self, customer: CustomerKey, ledger: &CreditLedger) -> Result<(), Error>;
    /// The customer that holds the credit: the way from an id alone to its scope.
    fn customer_of(&mut self, id: CreditId) -> Result<CustomerKey, Error>;
    /// The credit.
    fn get(&mut self, customer: CustomerKey, id: CreditId) -> Result<CreditLedger, Error>;
    /// All credits of a customer, newest first.
    fn list(&mut self, customer: CustomerKey) -> Result<Vec<CreditLedger>, Error>;
    /// The customer's credits that have something left, oldest first.
    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<CreditLedger>, Error>;
    /// Writes description and expiry back and appends the entries that are new; no entry ever changes, and a ledger that lacks one
    /// is not written.
    fn update(&mut self, customer: CustomerKey, ledger: &CreditLedger) -> Result<(), Error>;
}
