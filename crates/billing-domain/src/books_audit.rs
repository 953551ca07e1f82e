//! Audits of an organization's books: whether they were found right, and when.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::BooksAuditId;

choices! {
    /// Where an audit stands.
    pub BooksAuditState {
        /// It is at work, or waits for its turn.
        Running = "running",
        /// Everything adds up.
        Clean = "clean",
        /// Something does not add up.
        Breached = "breached",
        /// It could not be carried out.
        Failed = "failed",
    }
}

/// An audit of an organization's books: everything is computed again from what is stored, and held against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BooksAudit {
    /// Its id.
    pub id: BooksAuditId,
    /// Where it stands.
    pub state: BooksAuditState,
    /// When somebody asked for it.
    pub requested_at: OffsetDateTime,
    /// When it came to its end.
    pub finished_at: Option<OffsetDateTime>,
    /// How often it was begun: whoever dies over it leaves it to the next.
    pub attempts: u64,
    /// Checks that are done.
    pub checks_done: u64,
    /// What they found wrong.
    pub breaches_found: u64,
    /// Why it could not be carried out.
    pub failure: Option<String>,
}

/// Something in the books that does not add up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BooksBreach {
    /// The check that found it, in snake_case.
    pub check: String,
    /// The invoice, credit, subscription, record or customer it is about.
    pub subject: String,
    /// What is wrong, with the figures.
    pub problem: String,
}

impl BooksAudit {
    /// Finished audits that are kept of an organization; older ones go.
    pub const KEPT_MAX: usize = 20;
    /// Breaches that are kept of an audit; more are only counted.
    pub const BREACHES_MAX: usize = 500;
}
