//! Changing, disabling and enabling a webhook endpoint.

use crate::error::Error;
use crate::id::WebhookEndpointId;
use crate::message_type::MessageType;
use crate::store::Transaction;
use crate::webhook::{EndpointStatus, WebhookEndpoint};

/// What to change of an endpoint; `None` leaves it as it is, an inner `None` clears it.
#[derive(Clone, Debug, Default)]
pub struct WebhookEndpointPatch {
    /// What is called.
    pub url: Option<String>,
    /// Types of the messages that are sent; none: all.
    pub event_types: Option<Vec<MessageType>>,
    /// What it is for.
    pub description: Option<Option<String>>,
    /// Whether messages are sent. When they are sent again, it is from then on.
    pub status: Option<EndpointStatus>,
}

/// Changes an endpoint.
///
/// # Errors
/// [`Error::NotFound`]; bad fields.
pub fn update_webhook_endpoint(
    tx: &mut dyn Transaction,
    id: WebhookEndpointId,
    patch: &WebhookEndpointPatch,
) -> Result<WebhookEndpoint, Error> {
    let mut endpoint = tx.webhooks().get(id)?;
    let patch = patch.clone();
    endpoint.url = patch.url.unwrap_or(endpoint.url);
    endpoint.event_types = patch.event_types.unwrap_or(endpoint.event_types);
    endpoint.description = patch.description.unwrap_or(endpoint.description);
    if let Some(status) = patch.status.filter(|status| *status != endpoint.status) {
        endpoint.status = status;
        (endpoint.disabled_reason, endpoint.failing_since) = (None, None);
        endpoint.position = tx.webhooks().last_position()?;
    }
    endpoint.faults().finish(())?;
    tx.webhooks().update(&endpoint)?;
    Ok(endpoint)
}
