//! Disabling a webhook endpoint that does not work, and telling so.

use time::OffsetDateTime;

use super::tell::tell_of_organization;
use crate::error::Error;
use crate::id::WebhookEndpointId;
use crate::message::Subject;
use crate::message_type::MessageType;
use crate::store::Transaction;
use crate::webhook::{EndpointStatus, WebhookEndpoint};

/// Disables an endpoint that has failed for too long or says that it is gone, and tells so. One that is disabled already stays as it is.
///
/// # Errors
/// [`Error::NotFound`].
pub fn disable_webhook_endpoint(
    tx: &mut dyn Transaction,
    id: WebhookEndpointId,
    reason: &str,
    now: OffsetDateTime,
) -> Result<WebhookEndpoint, Error> {
    let mut endpoint = tx.webhooks().get(id)?;
    if endpoint.status == EndpointStatus::Disabled {
        return Ok(endpoint);
    }
    endpoint.status = EndpointStatus::Disabled;
    endpoint.disabled_reason = Some(reason.to_owned());
    tx.webhooks().update(&endpoint)?;
    let disabled = Subject::WebhookEndpoint(endpoint.clone());
    tell_of_organization(tx, (MessageType::WebhookEndpointDisabled, now), &disabled)?;
    Ok(endpoint)
}
