//! The check that every route but the public ones goes through, and what handlers learn of their caller from it.

mod bearer;
mod key_check;

pub use bearer::recognize;
pub use key_check::{Vouched, authenticate};
