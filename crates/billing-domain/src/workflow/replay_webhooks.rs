//! Sending a webhook endpoint messages again.

use time::OffsetDateTime;

use crate::error::{Error, Noun, Refusal};
use crate::id::{MessageId, WebhookEndpointId};
use crate::store::Transaction;
use crate::webhook::{EndpointStatus, PendingDelivery, WebhookEndpoint};

/// What to send again.
#[derive(Clone, Copy, Debug)]
pub enum Replay {
    /// One message.
    Message(MessageId),
    /// All that were written since an instant of real time.
    Since(OffsetDateTime),
}

/// Has messages sent to an endpoint again, whether or not it took them before.
///
/// # Errors
/// [`Error::NotFound`] for the endpoint; [`Refusal::EndpointDisabled`]; a message that does not exist.
pub fn replay_webhooks(
    tx: &mut dyn Transaction,
    id: WebhookEndpointId,
    replay: Replay,
    now: OffsetDateTime,
) -> Result<WebhookEndpoint, Error> {
    let endpoint = tx.webhooks().get(id)?;
    if endpoint.status == EndpointStatus::Disabled {
        return Err(Refusal::EndpointDisabled.into());
    }
    match replay {
        Replay::Message(message) => {
            let found = tx.messages().list_by_id(&[message])?.pop().ok_or(Error::NotFound(Noun::Message));
            let (position, message) = found.map_err(|error| error.at_field("message_id"))?;
            tx.webhooks().put_pending(id, &[PendingDelivery::new(position, message.id, now)])?;
        }
        Replay::Since(since) => tx.webhooks().rewind(id, since)?,
    }
    tx.webhooks().get(id)
}
