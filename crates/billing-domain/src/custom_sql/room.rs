//! A stack that is large enough for a parser.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};

/// Stack for reading one query. The deepest that get past the walls of [`parse`](super::parse) take 1.9 MB of it in a
/// build without optimization; a thread of a server has 2 MB, and has used some of them already.
const STACK_BYTES: usize = 8 << 20;

/// Does `work` on a stack of its own, so that no text can take more than there is of the caller's. Where there are no
/// threads it is the caller's after all.
pub(super) fn with_room<T: Send>(work: impl Fn() -> T + Sync) -> T {
    let done = scope(|threads| {
        let thread = Builder::new().stack_size(STACK_BYTES).spawn_scoped(threads, &work).ok()?;
        Some(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    done.unwrap_or_else(work)
}
