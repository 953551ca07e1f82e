//! The service is what it says of itself: description, documents, guides, the client that came before, and those that are
//! generated.

mod demo;
mod documents;
mod generated_clients;
mod guides;
mod in_a_browser;
mod lotus_python;
pub(crate) mod packages;
mod packaging;
mod page;
mod promises;
mod sentences;
mod telemetry;
mod webhook_receiver;
mod wrong_inputs;
