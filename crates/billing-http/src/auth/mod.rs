//! Who is calling: API keys, and the check that every route but the public ones goes through.

mod bearer;
mod caller;
mod key;
mod known;

pub use bearer::{Bearer, recognize};
pub use caller::{Caller, authenticate};
pub use key::{KeyText, Pepper, PepperError};
pub use known::KnownKeys;
