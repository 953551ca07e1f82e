//! Audits of the books: kept, carried out one at a time, and dropped when they are old.

use time::{Duration, OffsetDateTime};

use super::{Harness, Tenant};
use crate::books_audit::{BooksAudit, BooksAuditState, BooksBreach};
use crate::error::{Error, Noun};
use crate::id::{BooksAuditId, OrganizationId};
use crate::store::PageRequest;

const LEASE: Duration = Duration::hours(1);

fn audit(tenant: &Tenant<'_>, at: OffsetDateTime) -> BooksAudit {
    BooksAudit {
        id: tenant.build(|ids| ids.next()),
        state: BooksAuditState::Running,
        requested_at: at,
        finished_at: None,
        attempts: 0,
        checks_done: 0,
        breaches_found: 0,
        failure: None,
    }
}

fn insert(tenant: &Tenant<'_>, audit: &BooksAudit) {
    tenant.catalog(|tx, _| tx.books_audits().insert(audit));
}

fn get(tenant: &Tenant<'_>, id: BooksAuditId) -> BooksAudit {
    tenant.look(|tx, _| tx.books_audits().get(id))
}

fn list(tenant: &Tenant<'_>, limit: u32, after: Option<String>) -> crate::store::Page<BooksAudit> {
    tenant.look(|tx, _| tx.books_audits().list(&PageRequest { limit, after: after.clone() }))
}

fn breach(subject: &str) -> BooksBreach {
    let [check, problem] = ["credit_is_its_ledger", "12 in place of 11"].map(str::to_owned);
    BooksBreach { check, subject: subject.to_owned(), problem }
}

/// Takes the audits of others, who share the store, out of the way until the next is the organization's; `None` while somebody is at one.
fn lease(harness: &Harness<'_>, organization: OrganizationId) -> Option<BooksAudit> {
    loop {
        let (owner, audit) = harness.books_audits.lease_books_audit(LEASE).expect("leased")?;
        if owner == organization {
            return Some(audit);
        }
        end(harness, owner, &audit, &[]);
    }
}

fn end(harness: &Harness<'_>, organization: OrganizationId, audit: &BooksAudit, breaches: &[BooksBreach]) {
    let state = if breaches.is_empty() { BooksAuditState::Clean } else { BooksAuditState::Breached };
    let ended = BooksAudit { state, breaches_found: breaches.len() as u64, ..audit.clone() };
    assert_eq!(harness.books_audits.keep_books_audit(organization, &ended, breaches, LEASE), Ok(true));
}

pub(super) fn keeps_audits(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let now = tenant.look(|_, now| Ok(now));
    let made = audit(&tenant, now);
    insert(&tenant, &made);
    assert_eq!(get(&tenant, made.id), made, "every field");
    assert_eq!(tenant.look(|tx, _| tx.books_audits().list_breaches(made.id)), []);
    let foreign = theirs.run(&crate::store::Scope::Organization(theirs.id), |tx, _| tx.books_audits().get(made.id));
    assert_eq!(foreign, Err(Error::NotFound(Noun::BooksAudit)), "another's");
    let foreign =
        theirs.run(&crate::store::Scope::Organization(theirs.id), |tx, _| tx.books_audits().list_breaches(made.id));
    assert_eq!(foreign, Err(Error::NotFound(Noun::BooksAudit)), "nor what it found");
    assert_eq!(list(&theirs, 9, None).items, []);
    let leased = lease(harness, tenant.id).expect("it is next");
    let found = [breach("a"), breach("b")];
    let ended = BooksAudit { state: BooksAuditState::Breached, checks_done: 38, breaches_found: 700, ..leased };
    assert_eq!(harness.books_audits.keep_books_audit(tenant.id, &ended, &found, LEASE), Ok(true));
    let kept = get(&tenant, made.id);
    assert!(kept.finished_at.is_some_and(|at| at >= now), "by the clock of the store: {kept:?}");
    assert_eq!(BooksAudit { finished_at: None, ..kept }, ended);
    assert_eq!(tenant.look(|tx, _| tx.books_audits().list_breaches(made.id)), found);
    let next = audit(&tenant, now);
    insert(&tenant, &next);
    let first = list(&tenant, 1, None);
    assert_eq!(first.items, std::slice::from_ref(&next), "newest first");
    let rest = list(&tenant, 1, first.next);
    assert_eq!((rest.items.first().map(|audit| audit.id), rest.next), (Some(made.id), None));
    let leased = lease(harness, tenant.id).expect("it is next");
    let failed = BooksAudit { state: BooksAuditState::Failed, failure: Some("no".to_owned()), ..leased };
    assert_eq!(harness.books_audits.keep_books_audit(tenant.id, &failed, &[], LEASE), Ok(true));
    assert_eq!(get(&tenant, next.id).failure.as_deref(), Some("no"));
}

pub(super) fn one_at_a_time(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let now = tenant.look(|_, now| Ok(now));
    let (first, second) = (audit(&tenant, now), audit(&theirs, now + Duration::milliseconds(1)));
    insert(&tenant, &first);
    insert(&theirs, &second);
    let leased = lease(harness, tenant.id).expect("it was asked for first");
    assert_eq!(leased, BooksAudit { attempts: 1, ..first.clone() });
    assert_eq!(harness.books_audits.lease_books_audit(LEASE), Ok(None), "somebody is at one");
    let on = BooksAudit { checks_done: 7, ..leased };
    assert_eq!(harness.books_audits.keep_books_audit(tenant.id, &on, &[], LEASE), Ok(true));
    assert_eq!(get(&tenant, first.id), on);
    assert_eq!(harness.books_audits.lease_books_audit(LEASE), Ok(None), "still at it");
    assert_eq!(harness.books_audits.keep_books_audit(tenant.id, &on, &[], Duration::ZERO), Ok(true));
    let again = lease(harness, tenant.id).expect("it was left");
    assert_eq!(again.attempts, 2, "and begun once more");
    assert_eq!(harness.books_audits.keep_books_audit(tenant.id, &on, &[], LEASE), Ok(false), "it is another's now");
    assert_eq!(get(&tenant, first.id), again, "who does not touch it");
    end(harness, tenant.id, &again, &[]);
    assert_eq!(harness.books_audits.keep_books_audit(tenant.id, &on, &[], LEASE), Ok(false), "it is over");
    assert_eq!(get(&tenant, first.id).state, BooksAuditState::Clean, "and stays so");
    let next = harness.books_audits.lease_books_audit(LEASE).expect("leased");
    assert_eq!(next, Some((theirs.id, BooksAudit { attempts: 1, ..second })), "then the other's");
    let (owner, audit) = next.expect("an audit");
    end(harness, owner, &audit, &[]);
}

pub(super) fn drops_what_is_old(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.look(|_, now| Ok(now));
    let mut all = Vec::new();
    for _ in 0..BooksAudit::KEPT_MAX + 2 {
        let made = audit(&tenant, now);
        insert(&tenant, &made);
        let leased = lease(harness, tenant.id).expect("it is next");
        end(harness, tenant.id, &leased, &[breach("a")]);
        all.push(made.id);
    }
    let running = audit(&tenant, now);
    insert(&tenant, &running);
    let kept: Vec<BooksAuditId> = list(&tenant, 50, None).items.iter().map(|audit| audit.id).collect();
    let newest = all.iter().rev().take(BooksAudit::KEPT_MAX).copied();
    assert_eq!(kept, [running.id].into_iter().chain(newest).collect::<Vec<_>>(), "the newest, and the one at work");
    let leased = lease(harness, tenant.id).expect("it is next");
    end(harness, tenant.id, &leased, &[]);
}
