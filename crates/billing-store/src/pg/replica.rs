//! The copy of the catalogue that a node has, and how far it has come.
//!
//! What nodes have a copy of is counted at home: each change moves a number on, which is sent with the change. A connection of a node is
//! lent only when the copy has come to the number that home had when the connection was asked for: whatever was committed before
//! that is seen, and a copy never goes back. It costs one statement at home, which all share that wait at the same time.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::StoreError;
use diesel::prelude::*;
use diesel::sql_types::BigInt;

use super::error::Failure;
use super::statement::statement;

/// How long a caller waits for a copy that is behind.
const BEHIND_MAX: Duration = Duration::from_secs(2);
/// How long between two looks at it: sending a change takes about as long.
const LOOK_EVERY: Duration = Duration::from_millis(2);

statement! {
    /// How far the catalogue has come.
    ReadPosition -> BigInt { "SELECT position FROM catalogue_position" }
}

/// How far the catalogue has come, where a connection looks.
pub(crate) fn position(pg: &mut PgConnection) -> QueryResult<i64> {
    (ReadPosition {}).get_result(pg)
}

/// Asks home how far the catalogue has come.
type AskHome = dyn Fn() -> Result<i64, StoreError> + Send + Sync;

/// The copy of one node.
pub(crate) struct Replica {
    ask_home: Box<AskHome>,
    /// When home was asked last, and what it said.
    asked: Mutex<Option<(Instant, i64)>>,
    /// How far the copy has been seen to be.
    seen: AtomicI64,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Replica {
    /// The copy of the catalogue whose [`position`] is read by `ask_home`.
    pub(crate) fn of(ask_home: impl Fn() -> Result<i64, StoreError> + Send + Sync + 'static) -> Self {
        Self { ask_home: Box::new(ask_home), asked: Mutex::default(), seen: AtomicI64::new(-1) }
    }

    /// Forgets how far the copy was: a new connection may lead to a server that has taken the place of another.
    pub(crate) fn forget(&self) {
        self.seen.store(-1, Ordering::SeqCst);
    }

    /// Waits until the copy that `pg` sees has all that was committed at home before.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: home does not answer, or the copy is behind for too long. Those of the connection.
    pub(crate) fn catch_up(&self, pg: &mut PgConnection) -> Result<(), Failure> {
        let (begun, wanted) = (Instant::now(), self.position_at_home()?);
        if self.seen.load(Ordering::SeqCst) >= wanted {
            return Ok(());
        }
        loop {
            let here = position(pg)?;
            self.seen.fetch_max(here, Ordering::SeqCst);
            if here >= wanted {
                return Ok(());
            }
            if begun.elapsed() > BEHIND_MAX {
                let message = format!("a node's copy of the catalogue is {} changes behind", wanted - here);
                return Err(StoreError::Unavailable(message).into());
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// How far the catalogue had come at some moment since this was called.
    fn position_at_home(&self) -> Result<i64, StoreError> {
        let called = Instant::now();
        // Whoever waits here is answered by the next question, if another one asks it.
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, position)) = *asked
            && at >= called
        {
            return Ok(position);
        }
        let at = Instant::now();
        let position = (self.ask_home)()?;
        *asked = Some((at, position));
        Ok(position)
    }
}
