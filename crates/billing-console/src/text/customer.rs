//! What is said about what a customer may use, is watched for, what happened to it, and what its credits were drawn for.

pub const MAY_USE_IT: &str = "May use it now";
pub const MAY: &str = "yes";
pub const MAY_NOT: &str = "no";
pub const WITHOUT_LIMIT: &str = "there is no limit";
pub const WITHIN_LIMIT: &str = "within what its plans allow";
pub const LIMIT_REACHED: &str = "what its plans allow is used";
pub const ALERTS_OF_CUSTOMER: &str = "Alerts";
pub const NO_ALERTS_OF_CUSTOMER: &str = "No alert is about this customer.";
pub const LATEST_CHANGES: &str = "Latest changes";
pub const ALL_CHANGES: &str = "All changes";
pub const TIMELINE: &str = "Timeline";
pub const WHOLE_TIMELINE: &str = "All that happened";
pub const NOTHING_HAPPENED: &str = "Nothing has happened yet, or it was long ago.";
pub const WHAT_HAPPENED: &str = "What happened";
pub const DRAWN_FOR: &str = "What it was drawn for";
pub const NOT_DRAWN: &str = "Nothing was drawn from it yet.";
pub const PAID_FOR_CREDIT: &str = "Paid for it";
