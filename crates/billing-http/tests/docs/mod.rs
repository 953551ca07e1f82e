//! The service is what it says of itself: description, documents, guides, the client that came before.

mod demo;
mod documents;
mod guides;
mod lotus_python;
mod page;
mod promises;
mod telemetry;
