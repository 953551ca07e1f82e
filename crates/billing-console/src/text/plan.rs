//! What is said about the versions of a plan.

pub const NOT_PUBLISHED: &str = "not published";
pub const OFFERED_UNTIL: &str = "until";
pub const HOLDS_IT: &str = "running subscription";
pub const HOLD_IT: &str = "running subscriptions";
pub const NO_HOLDERS: &str = "Nobody holds it now.";
pub const SUBSCRIBABLE: &str = "Can be subscribed to";
