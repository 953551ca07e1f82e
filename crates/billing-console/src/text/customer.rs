//! What is said about what a customer may use, is watched for, and was changed of.

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
