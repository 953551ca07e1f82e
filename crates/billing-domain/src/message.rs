//! Messages: what is told to whoever listens, of everything that became true.
//!
//! A message is written in the transaction that makes its fact true, so that the set of messages is the set of facts: what
//! is undone was never told, and what stays is told once.

use std::collections::BTreeSet;

use time::OffsetDateTime;

use crate::credit::CreditLedger;
use crate::credit_note::CreditNote;
use crate::customer::Customer;
use crate::id::{CustomerKey, InvoiceId, LineId, MessageId, SubscriptionId};
use crate::metric::Metric;
use crate::one_off_line::OneOffLine;
use crate::plan::{Plan, PlanVersion};
use crate::subscription::Subscription;
use crate::usage_alert::TriggeredAlert;
use crate::webhook::WebhookEndpoint;

pub use crate::message_type::MessageType;

/// What a message is about, as it is when the message is written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Subject {
    /// A customer that has nothing yet.
    Customer(Customer),
    /// A customer whose billing is left alone.
    Parked(ParkedBilling),
    /// An invoice. What it says never changes, so it is not kept twice.
    Invoice(InvoiceId),
    /// A subscription that is stored as it is here.
    Subscription(Subscription),
    /// A subscription that was just made, with all there is to say of it.
    NewSubscription(NewSubscription),
    /// An add-on that was just attached and is stored.
    Addon(Subscription),
    /// A credit of a customer, at the customer's now.
    Credit(CustomerKey, CreditLedger, OffsetDateTime),
    /// A credit note, as it is stored.
    CreditNote(Box<CreditNote>),
    /// A one-off line, and the line of the invoice that bills it where one does.
    OneOffLine(Box<OneOffLine>, Option<LineId>),
    /// A version of a plan, published at this instant.
    PlanVersion(Plan, PlanVersion, OffsetDateTime),
    /// A metric.
    Metric(Metric),
    /// A usage alert whose threshold was reached.
    UsageAlert(Box<TriggeredAlert>),
    /// A webhook endpoint.
    WebhookEndpoint(WebhookEndpoint),
}

/// A subscription that was just made, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewSubscription {
    /// The subscription.
    pub subscription: Subscription,
    /// The add-ons that are attached to it.
    pub addons: Vec<Subscription>,
    /// Those of all these of which nothing is left to invoice.
    pub fully_billed: BTreeSet<SubscriptionId>,
}

impl NewSubscription {
    /// Of a subscription, the add-ons attached to it, and which of them have nothing left to invoice.
    pub fn new(subscription: Subscription, addons: Vec<Subscription>, fully_billed: BTreeSet<SubscriptionId>) -> Self {
        Self { subscription, addons, fully_billed }
    }
}

/// A customer whose billing failed so often that it is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParkedBilling {
    /// Whose.
    pub customer: Customer,
    /// How often in a row it failed.
    pub failures: u32,
}

impl ParkedBilling {
    /// Of a customer, after so many failures in a row.
    pub fn new(customer: Customer, failures: u32) -> Self {
        Self { customer, failures }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// Its id: the same however often it is sent.
    pub id: MessageId,
    /// What kind of fact it is about.
    pub message_type: MessageType,
    /// Whose fact that is; `None`: the organization's.
    pub customer: Option<CustomerKey>,
    /// When it became true, in the customer's own time.
    pub at: OffsetDateTime,
    /// Whether that is real time: false for customers under a test clock.
    pub is_live: bool,
    /// What it says of its subject.
    pub payload: Payload,
}

impl Message {
    /// A message that was written before.
    pub fn new(
        (id, message_type): (MessageId, MessageType),
        customer: Option<CustomerKey>,
        (at, is_live): (OffsetDateTime, bool),
        payload: Payload,
    ) -> Self {
        Self { id, message_type, customer, at, is_live, payload }
    }
}

/// What a message says of its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// What the invoice says, which never changes, with the payment status that the message's type is about.
    Invoice(InvoiceId),
    /// This JSON object.
    Json(String),
}
