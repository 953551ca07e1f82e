//! Request bodies: how bytes become JSON that is safe to read.

mod budget;
mod extract;
mod scan;

pub use budget::BodyBudget;
pub use extract::{ApiJson, BODY_BYTES_MAX, BodyDeadline, RawBody, decode, parse, receive_all};
pub use scan::{DEPTH_MAX, JsonFault, scan};
