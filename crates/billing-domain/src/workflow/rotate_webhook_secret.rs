//! Giving a webhook endpoint another secret.

use time::OffsetDateTime;

use crate::error::Error;
use crate::id::WebhookEndpointId;
use crate::store::Transaction;
use crate::webhook::{OLD_SECRET_VALID, WebhookEndpoint};

/// Gives an endpoint another secret, which is sealed here, with its public key. The one before signs beside it for [`OLD_SECRET_VALID`].
///
/// # Errors
/// [`Error::NotFound`].
pub fn rotate_webhook_secret(
    tx: &mut dyn Transaction,
    id: WebhookEndpointId,
    (secret, public_key): (&[u8], &str),
    now: OffsetDateTime,
) -> Result<WebhookEndpoint, Error> {
    let mut endpoint = tx.webhooks().get(id)?;
    let old = std::mem::replace(&mut endpoint.secret, secret.to_vec());
    public_key.clone_into(&mut endpoint.public_key);
    endpoint.old_secret = Some((old, now + OLD_SECRET_VALID));
    tx.webhooks().update(&endpoint)?;
    Ok(endpoint)
}
