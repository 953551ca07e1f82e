//! The audit log: the call that lists it, and how things are shown in it before they are changed.

mod list;
mod shown;

pub use list::endpoints;
pub use shown::find as show;
