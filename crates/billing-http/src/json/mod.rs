//! Request bodies: how bytes become JSON that is safe to read.

mod asked;
mod budget;
mod extract;
mod scan;

pub use asked::{Ask, Asked};
pub use budget::BodyBudget;
pub use extract::{ApiJson, BODY_BYTES_MAX, BodyDeadline, RawBody, decode, parse, parse_or_empty, receive_all};
pub use scan::{DEPTH_MAX, JsonFault, scan};
