//! Tells what became true: the message is written in the transaction of its fact.

use time::OffsetDateTime;

use crate::customer::Customer;
use crate::error::Error;
use crate::id::CustomerKey;
use crate::message::{Message, MessageType, Payload, Subject};
use crate::store::Transaction;

/// Writes the message about a customer's fact, that became true at `at`.
pub(super) fn tell(
    tx: &mut dyn Transaction,
    customer: &Customer,
    (message_type, at): (MessageType, OffsetDateTime),
    subject: &Subject,
) -> Result<(), Error> {
    write(tx, (Some(customer.key), customer.test_clock.is_none()), (message_type, at), subject)
}

/// Writes the message about a fact of the organization's.
pub(super) fn tell_of_organization(
    tx: &mut dyn Transaction,
    (message_type, at): (MessageType, OffsetDateTime),
    subject: &Subject,
) -> Result<(), Error> {
    write(tx, (None, true), (message_type, at), subject)
}

fn write(
    tx: &mut dyn Transaction,
    (customer, is_live): (Option<CustomerKey>, bool),
    (message_type, at): (MessageType, OffsetDateTime),
    subject: &Subject,
) -> Result<(), Error> {
    let payload = match subject {
        Subject::Invoice(id) => Payload::Invoice(*id),
        subject => {
            let renderer = tx.messages().renderer();
            Payload::Json(renderer.render(tx, subject)?)
        }
    };
    let id = tx.messages().new_id();
    tx.messages().insert(Message { id, message_type, customer, at, is_live, payload })
}
