//! The check that every route but the public ones goes through, and what handlers learn of their caller from it.

mod bearer;
mod carry;
mod key_check;
mod scope;

pub use bearer::recognize;
pub use carry::carry;
pub use key_check::{Vouched, authenticate};
pub use scope::Needs;
