//! What is said about what can be done with a webhook endpoint.

pub const TEST_WEBHOOK: &str = "Try it";
pub const TEST_WEBHOOK_EXPLAINED: &str =
    "A message of the type webhook_endpoint.test is sent to it now, signed as all others are. It is not sent again.";
pub const TEST_WAS_TAKEN: &str = "It took the message";
pub const TEST_WAS_NOT_TAKEN: &str = "It did not take the message";
pub const ROTATE_SECRET: &str = "Another secret";
pub const ROTATE_SECRET_EXPLAINED: &str =
    "Messages are signed with the new secret, and for a day with the one before beside it.";
pub const SECRET_ROTATED: &str = "It has another secret";
pub const DISABLE_WEBHOOK: &str = "Disable";
pub const DISABLE_WEBHOOK_EXPLAINED: &str =
    "Nothing more is sent to it. What happens until it is enabled can be sent again then.";
pub const ENABLE_WEBHOOK: &str = "Enable";
pub const ENABLE_WEBHOOK_EXPLAINED: &str = "What happens from now on is sent to it.";
pub const DELETE_WEBHOOK: &str = "Delete endpoint";
pub const DELETE_WEBHOOK_EXPLAINED: &str =
    "Nothing more is sent to it, and its attempts are shown no longer. What happened stays in the feed.";
