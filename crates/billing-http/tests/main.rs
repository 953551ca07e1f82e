//! The service as a client sees it: real HTTP, a real Postgres, one database for each test.

mod access;
mod authorization;
mod bad_input;
mod bodies;
mod changes;
mod credits;
mod demo;
mod documents;
mod durability;
mod events;
mod faults;
mod import;
mod isolation;
mod late_usage;
mod lists;
mod lotus_python;
mod metrics;
mod plans;
mod readme;
mod retries;
mod shapes;
mod subscriptions;
mod support;
mod test_clocks;
mod track;
mod usage;
