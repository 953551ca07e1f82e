//! Having messages sent to an address.

use time::OffsetDateTime;

use crate::error::{Error, FieldCode, FieldError};
use crate::id::WebhookEndpointId;
use crate::message_type::MessageType;
use crate::store::Transaction;
use crate::webhook::{ENDPOINTS_MAX, EndpointStatus, WebhookEndpoint};

/// A new endpoint. Its URL was looked at by whoever calls it.
#[derive(Clone, Debug)]
pub struct CreateWebhookEndpoint {
    /// What is called.
    pub url: String,
    /// Types of the messages that are sent; none: all.
    pub event_types: Vec<MessageType>,
    /// What it is for.
    pub description: Option<String>,
    /// The id it gets, by which its secret is sealed.
    pub id: WebhookEndpointId,
    /// What verifies the public signatures of messages.
    pub public_key: String,
    /// What messages are signed with, sealed.
    pub secret: Vec<u8>,
}

/// Creates an endpoint: whatever is told from now on is sent to it.
///
/// # Errors
/// Bad fields; more than [`ENDPOINTS_MAX`] endpoints.
pub fn create_webhook_endpoint(
    tx: &mut dyn Transaction,
    command: &CreateWebhookEndpoint,
    now: OffsetDateTime,
) -> Result<WebhookEndpoint, Error> {
    let CreateWebhookEndpoint { url, event_types, description, id, public_key, secret } = command.clone();
    let endpoint = WebhookEndpoint {
        id,
        url,
        event_types,
        description,
        public_key,
        secret,
        old_secret: None,
        status: EndpointStatus::Enabled,
        disabled_reason: None,
        failing_since: None,
        position: tx.webhooks().last_position()?,
        replays: 0,
        created_at: now,
    };
    endpoint.faults().finish(())?;
    if tx.webhooks().list()?.len() >= ENDPOINTS_MAX {
        let detail = format!("An organization has at most {ENDPOINTS_MAX} webhook endpoints.");
        return Err(FieldError::new("url", FieldCode::ListTooLong, detail).into());
    }
    tx.webhooks().insert(&endpoint)?;
    Ok(endpoint)
}
