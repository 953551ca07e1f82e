//! Messages as they are sent and as the feed shows them.

use std::collections::BTreeMap;
use std::fmt;

use billing_domain::id::{CustomerKey, InvoiceId, MessageId};
use billing_domain::invoice::{Invoice, PaymentStatus};
use billing_domain::message::{Message, MessageType, Payload};
use billing_domain::store::Transaction;
use billing_domain::{BigDecimal, Error, Noun, StoreError};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::invoice::{InvoiceView, VoidedInvoiceView};
use crate::wire::{Described, Instant, Schema, Schemas, view};

view! {
    /// Something that became true.
    MessageView {
        /// Its id: the same however often it is sent.
        id: MessageId,
        /// What kind of fact it is about.
        r#type: MessageType,
        /// When it became true, in the customer's own time.
        timestamp: Instant,
        /// Whether that is real time: false for customers under a test clock.
        livemode: bool,
        /// What there is to say of it, as the call that shows it says it.
        data: Data,
    }
}

/// JSON that is shown as it was written.
#[derive(Clone, Debug)]
pub struct Data(Box<RawValue>);

impl From<Box<RawValue>> for Data {
    fn from(json: Box<RawValue>) -> Self {
        Self(json)
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get())
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl Described for Data {
    fn describe(schemas: &mut Schemas) -> Schema {
        Map::<String, Value>::describe(schemas)
    }
}

/// Messages as they are shown. How many statements that takes does not depend on how many they are.
///
/// # Errors
/// Those of the store.
pub fn views(tx: &mut dyn Transaction, messages: Vec<Message>) -> Result<Vec<MessageView>, Error> {
    let ids: Vec<(CustomerKey, InvoiceId)> = messages.iter().filter_map(invoice_of).collect();
    let invoices = if ids.is_empty() { Vec::new() } else { tx.invoices().list_by_id(&ids)? };
    let invoices: BTreeMap<InvoiceId, Invoice> = invoices.into_iter().map(|invoice| (invoice.id, invoice)).collect();
    messages.into_iter().map(|message| MessageView::new(message, &invoices)).collect()
}

/// The invoice that a message is about, and whose it is.
fn invoice_of(message: &Message) -> Option<(CustomerKey, InvoiceId)> {
    match &message.payload {
        Payload::Invoice(id) => Some((message.customer?, *id)),
        Payload::Json(_) => None,
    }
}

impl MessageView {
    fn new(message: Message, invoices: &BTreeMap<InvoiceId, Invoice>) -> Result<Self, Error> {
        let json = match message.payload {
            Payload::Json(json) => json,
            Payload::Invoice(id) => {
                let invoice = invoices.get(&id).ok_or(Error::NotFound(Noun::Invoice))?;
                shown(message.message_type, invoice).map_err(unreadable)?
            }
        };
        Ok(Self {
            id: message.id,
            r#type: message.message_type,
            timestamp: Instant(message.at),
            livemode: message.is_live,
            data: Data(RawValue::from_string(json).map_err(unreadable)?),
        })
    }
}

fn unreadable(error: serde_json::Error) -> Error {
    StoreError::Internal(format!("a message cannot be shown: {error}")).into()
}

/// The invoice as it was when a message of this type was written: nothing of it ever changes but how far it is paid.
fn shown(message_type: MessageType, invoice: &Invoice) -> serde_json::Result<String> {
    let with = |payment_status, amount_due: &BigDecimal| {
        let amount_paid = &invoice.amount - amount_due;
        let replaced_by = invoice.replaced_by.filter(|_| payment_status == PaymentStatus::Voided);
        Invoice { payment_status, amount_paid, credit_notes: Vec::new(), replaced_by, ..invoice.clone() }
    };
    let (amount, nothing) = (&invoice.amount, BigDecimal::default());
    let view = |payment_status, due| serde_json::to_string(&InvoiceView::from(&with(payment_status, due)));
    match message_type {
        MessageType::InvoiceVoided => {
            serde_json::to_string(&VoidedInvoiceView::new(&with(PaymentStatus::Voided, amount), None))
        }
        MessageType::InvoicePaid => view(PaymentStatus::Paid, &nothing),
        MessageType::InvoiceCreated => view(PaymentStatus::when_issued(amount), amount),
        _ => view(PaymentStatus::Unpaid, invoice.amount_past_due.as_ref().unwrap_or(amount)),
    }
}
