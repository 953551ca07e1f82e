//! What is said about API keys.

pub const API_KEYS: &str = "API keys";
pub const NO_API_KEYS: &str = "No API keys.";
pub const NEW_API_KEY: &str = "New key";
pub const NEW_API_KEY_EXPLAINED: &str =
    "What it may be used for never changes while the key lasts. Its text is shown once, and kept nowhere.";
pub const API_KEY_NAME_HINT: &str = "What it is for: the program that will have it.";
pub const API_KEY_MADE: &str = "Key made";
pub const API_KEY_SHOWN_ONCE: &str = "Copy it now: it is not shown again. Whoever has it can do what is said above.";
pub const PREFIX: &str = "Begins with";
pub const MADE_AT: &str = "Made";
pub const LAST_USED: &str = "Last used";
pub const NOT_YET: &str = "not yet";
pub const SCOPES: &str = "What it may be used for";
pub const CHOOSE_SCOPES: &str = "Choose at least one thing that it may be used for.";
pub const SCOPE_READ: &str = "Reading what there is";
pub const SCOPE_INGEST: &str = "Sending events";
pub const SCOPE_ACCESS_CHECK: &str = "Asking whether customers may use something";
pub const SCOPE_BILLING: &str = "Changing customers, subscriptions, invoices, payments and credits";
pub const SCOPE_ADMIN: &str = "Everything else, among it plans, keys and users";
pub const REGENERATE_KEY: &str = "Put a new key in its place";
pub const REGENERATE_KEY_EXPLAINED: &str =
    "The key of now is worthless at once. The new one has its name and may be used for the same.";
pub const REPLACE: &str = "Replace";
pub const DELETE_KEY: &str = "Delete key";
pub const DELETE_KEY_EXPLAINED: &str = "It is worthless at once. Programs that still have it are refused.";
