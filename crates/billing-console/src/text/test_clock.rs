//! What is said about test clocks.

pub const NO_TEST_CLOCKS: &str = "No test clocks. Customers that are made with one live at its time.";
pub const NEW_TEST_CLOCK: &str = "New test clock";
pub const NEW_TEST_CLOCK_EXPLAINED: &str =
    "Customers that are made with its id (test_clock_id) live at its time for everything.";
pub const CLOCK_NAME_HINT: &str = "What is tried with it.";
pub const STANDS_AT: &str = "It begins at";
pub const CLOCK_TIME: &str = "It is";
pub const ADVANCE: &str = "Advance";
pub const ADVANCE_TO: &str = "Advance to";
pub const DAYS_TO_PASS: &str = "Let days pass";
pub const ONE_TO_MANY_DAYS: &str = "1 to 92 days";
pub const CLOCK_IS_BUSY: &str = "It is on its way to this time.";
pub const CLOCK_HAS_FAILED: &str = "The billing of one of its customers failed. Advancing it again tries that again.";
pub const TEST_CLOCK_EXPLAINED: &str = "For the customers of this clock everything happens that is due until then: renewals, invoices, alerts. Time does not go back.";
pub const INVOICES_AT_CLOCK: &str = "Invoices of its customers";
pub const NO_INVOICES_AT_CLOCK: &str = "None yet. They come when it is advanced to when something is due.";
