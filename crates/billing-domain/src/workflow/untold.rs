//! What an account has to tell, in its order.

use time::OffsetDateTime;

use crate::credit::CreditLedger;
use crate::id::{InvoiceId, SubscriptionId};
use crate::message::MessageType;

/// Facts of an account that are told in their order once they are stored: what is said of them is how they are then, for
/// nobody ever sees anything else.
#[derive(Clone, Default)]
pub(super) struct Untold(pub(super) Vec<(MessageType, OffsetDateTime, Of)>);

/// What an untold fact is about.
#[derive(Clone)]
pub(super) enum Of {
    New(SubscriptionId),
    Stored(SubscriptionId),
    Addon(SubscriptionId),
    Invoice(InvoiceId),
    Credit(Box<CreditLedger>),
}

impl Untold {
    /// A subscription was made and is at work in the account.
    pub fn new_subscription(&mut self, message_type: MessageType, at: OffsetDateTime, id: SubscriptionId) {
        self.0.push((message_type, at, Of::New(id)));
    }

    /// A subscription was changed.
    pub fn subscription(&mut self, message_type: MessageType, at: OffsetDateTime, id: SubscriptionId) {
        self.0.push((message_type, at, Of::Stored(id)));
    }

    /// An add-on was attached.
    pub fn addon(&mut self, at: OffsetDateTime, id: SubscriptionId) {
        self.0.push((MessageType::AddonAttached, at, Of::Addon(id)));
    }

    /// Something became of an invoice.
    pub fn invoice(&mut self, message_type: MessageType, at: OffsetDateTime, id: InvoiceId) {
        self.0.push((message_type, at, Of::Invoice(id)));
    }

    /// Something became of a credit, which is now like this.
    pub fn credit(&mut self, message_type: MessageType, at: OffsetDateTime, ledger: CreditLedger) {
        self.0.push((message_type, at, Of::Credit(Box::new(ledger))));
    }
}
