//! Carrying out audits of the books that somebody has asked for: one at a time, beside everything else, on a connection of its own.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration as StdDuration, Instant};

use billing_audit::{AuditError, Breach, Report};
use billing_domain::books_audit::{BooksAudit, BooksAuditState, BooksBreach};
use billing_domain::error::Error;
use billing_domain::id::OrganizationId;
use time::Duration;

use crate::backend::Backend;

/// How long an audit belongs to the worker that carries it out, from each note on: whoever dies over it keeps it from others for as long.
const LEASE: Duration = Duration::seconds(15);
/// How often is noted how far it is.
const KEEP_EVERY: StdDuration = StdDuration::from_secs(1);
/// How often it is begun at most: what ends the process that carries it out is not tried for ever.
const ATTEMPTS_MAX: u64 = 3;
/// How long a check may take.
const CHECK_MAX: StdDuration = StdDuration::from_secs(600);
/// The most that is rested behind a check; one that took less is rested for as long as it took.
const REST_MAX: StdDuration = StdDuration::from_secs(5);

/// What whoever audits tells.
enum Told {
    /// The next check begins.
    Check,
    /// It is over.
    Over(Option<Result<Report, AuditError>>),
}

/// Carries out the audit that is next, unless the worker is sent home meanwhile; whether there may be another one.
///
/// # Errors
/// Those of the store. The audit is begun again then once its lease is over.
pub fn carry_out_next(backend: &Arc<dyn Backend>, is_sent_home: &dyn Fn() -> bool) -> Result<bool, Error> {
    let Some((organization, mut audit)) = backend.lease_books_audit(LEASE)? else { return Ok(false) };
    if audit.attempts > ATTEMPTS_MAX {
        fail(&mut audit, "It was begun several times, and never came to its end.");
        backend.keep_books_audit(organization, &audit, &[], LEASE)?;
        return Ok(true);
    }
    let (sender, receiver) = mpsc::channel();
    let auditing = Arc::clone(backend);
    let thread = thread::Builder::new().name("books-audit-checks".to_owned());
    // Nobody waits for it where the process ends before: its connection goes with it.
    match thread.spawn(move || audit_books(auditing.as_ref(), organization, &sender)) {
        Ok(_) => follow(backend.as_ref(), organization, &mut audit, &receiver, is_sent_home),
        Err(error) => {
            log::error!(organization:%, error:%; "an audit of the books could not be begun");
            backend.keep_books_audit(organization, &audit, &[], Duration::ZERO)?;
            Ok(false)
        }
    }
}

/// Audits, with rests, and tells how far it is. Nobody may listen any more: then what is found is nobody's.
fn audit_books(backend: &dyn Backend, organization: OrganizationId, sender: &Sender<Told>) {
    let mut last = Instant::now();
    let report = backend.audit_books(organization, CHECK_MAX, &mut |_| {
        thread::sleep(last.elapsed().min(REST_MAX));
        sender.send(Told::Check).unwrap_or_default();
        last = Instant::now();
    });
    sender.send(Told::Over(report)).unwrap_or_default();
}

/// Notes how far the audit is until it is over, is somebody else's, or the worker is sent home.
fn follow(
    backend: &dyn Backend,
    organization: OrganizationId,
    audit: &mut BooksAudit,
    told: &Receiver<Told>,
    is_sent_home: &dyn Fn() -> bool,
) -> Result<bool, Error> {
    let (mut begun, mut kept) = (0, Instant::now());
    loop {
        match told.recv_timeout(KEEP_EVERY) {
            Ok(Told::Check) => {
                begun += 1;
                audit.checks_done = begun - 1;
            }
            Ok(Told::Over(report)) => {
                let breaches = end(organization, audit, report);
                backend.keep_books_audit(organization, audit, &breaches, LEASE)?;
                return Ok(true);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                fail(audit, "It ended without a result.");
                backend.keep_books_audit(organization, audit, &[], LEASE)?;
                return Ok(true);
            }
        }
        if is_sent_home() {
            // Whoever comes next begins it anew, and is not kept from it.
            audit.checks_done = 0;
            backend.keep_books_audit(organization, audit, &[], Duration::ZERO)?;
            return Ok(false);
        }
        if kept.elapsed() >= KEEP_EVERY {
            if !backend.keep_books_audit(organization, audit, &[], LEASE)? {
                return Ok(true);
            }
            kept = Instant::now();
        }
    }
}

/// The audit as it is at its end, and what it found.
fn end(
    organization: OrganizationId,
    audit: &mut BooksAudit,
    report: Option<Result<Report, AuditError>>,
) -> Vec<BooksBreach> {
    let report = match report {
        Some(Ok(report)) => report,
        Some(Err(error)) => {
            log::error!(organization:%, error:%; "an audit of the books failed");
            fail(audit, &told_of(&error));
            return Vec::new();
        }
        None => {
            fail(audit, "These books are in no database that could be audited.");
            return Vec::new();
        }
    };
    audit.checks_done = report.checks as u64;
    audit.breaches_found = report.breaches.len() as u64;
    audit.state = if report.is_clean() { BooksAuditState::Clean } else { BooksAuditState::Breached };
    if !report.is_clean() {
        log::error!(organization:%, breaches = report.breaches.len(); "the books are not right");
    }
    let breach = |Breach { check, subject, problem }| BooksBreach { check: String::from(check), subject, problem };
    report.breaches.into_iter().take(BooksAudit::BREACHES_MAX).map(breach).collect()
}

fn fail(audit: &mut BooksAudit, failure: &str) {
    audit.state = BooksAuditState::Failed;
    audit.failure = Some(failure.to_owned());
}

/// Why there is no result, for the one who asked: nothing of the database is in it, which the log has.
fn told_of(error: &AuditError) -> String {
    match error {
        AuditError::Check(check, _) => format!("The check {check} could not be carried out, or took too long."),
        AuditError::Moving => "Customers were moved to another server just now: audit again.".to_owned(),
        _ => "The database could not be read.".to_owned(),
    }
}
