//! Request bodies off the wire: how bytes become JSON that is safe to read.

mod budget;
mod fields;
mod receive;
mod scan;
mod unpack;

pub use budget::BodyBudget;
pub use fields::read_fields;
pub use receive::{
    BODY_BYTES_MAX, BodyDeadline, BodyError, INLINE_BYTES_MAX, RawBody, decode, parse, parse_or_empty, peek,
    receive_all,
};
pub use scan::{DEPTH_MAX, JsonFault, scan};
