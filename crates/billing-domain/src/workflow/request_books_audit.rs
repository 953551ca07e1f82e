//! Asks for an audit of the books.

use time::OffsetDateTime;

use crate::books_audit::{BooksAudit, BooksAuditState};
use crate::error::Error;
use crate::store::{PageRequest, Transaction};

/// Has the organization's books audited in the background; where that is under way already, that audit is the answer.
///
/// # Errors
/// Those of the store.
pub fn request_books_audit(tx: &mut dyn Transaction, now: OffsetDateTime) -> Result<BooksAudit, Error> {
    let latest = tx.books_audits().list(&PageRequest { limit: 1, after: None })?.items.pop();
    if let Some(running) = latest.filter(|audit| audit.state == BooksAuditState::Running) {
        return Ok(running);
    }
    let audit = BooksAudit {
        id: tx.new_uuid().into(),
        state: BooksAuditState::Running,
        requested_at: now,
        finished_at: None,
        attempts: 0,
        checks_done: 0,
        breaches_found: 0,
        failure: None,
    };
    tx.books_audits().insert(&audit)?;
    Ok(audit)
}
