//! What holds for every call, whatever it is about, and what is refused.

mod advancing;
mod audit_log;
mod authorization;
mod bad_input;
mod bodies;
pub mod catching_up;
mod custom_metric_costs;
mod every_route;
mod fairness;
mod faults_together;
mod forms_of_numbers;
mod isolation;
mod key_scopes;
pub(crate) mod poison;
mod refusals;
mod retries;
mod statements;
mod transport;
mod unknown_fields;
