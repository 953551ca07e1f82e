//! Messages: what is told of everything that became true.

mod render;
mod view;
mod webhooks;

use std::sync::Arc;

use billing_domain::message::Message;
use billing_domain::store::{Feeds, Transaction};
use billing_domain::{Error, StoreError};

pub use view::{Data, MessageView, views};
pub use webhooks::webhooks;

/// Has what a store tells say the same as answers do.
pub fn render_on(feeds: &(impl Feeds + ?Sized)) {
    feeds.render_with(Arc::new(render::Views));
}

/// Messages as they are sent, in their order.
///
/// # Errors
/// Those of the store.
pub fn bodies(tx: &mut dyn Transaction, messages: Vec<Message>) -> Result<Vec<Vec<u8>>, Error> {
    let body =
        |view: &MessageView| serde_json::to_vec(view).map_err(|error| StoreError::Internal(error.to_string()).into());
    views(tx, messages)?.iter().map(body).collect()
}
