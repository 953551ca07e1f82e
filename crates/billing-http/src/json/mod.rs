//! Request bodies: how bytes become JSON that is safe to read.

mod asked;
mod budget;
mod extract;
mod fields;
mod scan;
mod unpack;

pub use asked::{FromQuery, QueryAndBody};
pub use budget::BodyBudget;
pub use extract::{
    ApiJson, BODY_BYTES_MAX, BodyDeadline, BodyError, RawBody, decode, known, parse, parse_or_empty, peek, receive_all,
};
pub use fields::read_fields;
pub use scan::{DEPTH_MAX, JsonFault, scan};
