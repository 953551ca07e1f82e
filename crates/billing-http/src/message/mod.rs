//! Messages: what is told of everything that became true.

mod render;
mod view;

use std::sync::Arc;

use billing_domain::store::Feeds;

pub use view::{MessageView, views};

/// Has what a store tells say the same as answers do.
pub fn render_on(feeds: &(impl Feeds + ?Sized)) {
    feeds.render_with(Arc::new(render::Views));
}
