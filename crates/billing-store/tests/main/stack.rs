//! Work on a stack of a given size: what takes more ends the whole process, so a test that passes proves a bound.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};

/// A quarter of what a thread of the service has: all that is done with a caller's text must fit, unoptimized.
pub const SERVICE_BYTES: usize = 512 << 10;
/// More than a parser takes that is not held back.
pub const AMPLE_BYTES: usize = 64 << 20;

/// Does `work` on a thread of its own with `bytes` of stack.
pub fn on_stack<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    scope(|threads| {
        let thread = Builder::new().stack_size(bytes).spawn_scoped(threads, work).expect("a thread");
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
