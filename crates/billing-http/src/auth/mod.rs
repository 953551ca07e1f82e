//! Who is calling: API keys, and the check that every route but the public ones goes through.

mod caller;
mod key;

pub use caller::{Caller, authenticate};
pub use key::{KeyText, Pepper, PepperError};
