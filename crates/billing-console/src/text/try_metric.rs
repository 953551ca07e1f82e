//! What the page says on which a query is tried.

pub const TRY_A_QUERY: &str = "Try a query";
pub const TRY_QUERY: &str = "Try it";
pub const QUERY: &str = "Query";
pub const QUERY_HINT: &str = "One SELECT over events with one column usage_qty. Nothing is kept of it.";
pub const TRY_QUERY_EXPLAINED: &str =
    "Runs the query of a custom metric on a customer's real events, within the limits that it has once it is a metric.";
pub const TRIED_ON_HINT: &str = "Whose events, by the id that you gave the customer.";
pub const TRIED_UNTIL_HINT: &str = "At most 31 days; until now when left empty.";
pub const QUERY_RESULT: &str = "What it comes to";
pub const QUERY_RESULT_HINT: &str = "Events: those of the customer that the query could see. Each day is asked by itself, so days need not add up to the whole.";
