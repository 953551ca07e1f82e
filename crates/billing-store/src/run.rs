//! Running work: alone in its scope, at the instant that holds there, again when another transaction was in the way.

use billing_domain::Error;
use billing_domain::customer::Customer;
use billing_domain::idempotency::{Answer, Attempt, Claim};
use billing_domain::store::{ClaimedWork, Scope, Work};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use time::OffsetDateTime;

use crate::cache::CatalogVersion;
use crate::cached::CachedTransaction;
use crate::custom_sql::{Attempts, Budget};
use crate::pg::error::Failure;
use crate::pg::lock::{lock_catalog, lock_customer};
use crate::pg::now::system_now;
use crate::pg::transact::Isolation;
use crate::repo::customer::enter;
use crate::repo::idempotency;
use crate::shared::Shared;
use crate::transaction::PgTransaction;

/// What a transaction knows when it has its lock.
struct Entered {
    now: OffsetDateTime,
    /// That of the organization's catalogue.
    catalog_version: Option<CatalogVersion>,
    customer: Option<Customer>,
}

impl Entered {
    fn at(now: OffsetDateTime) -> Self {
        Self { now, catalog_version: None, customer: None }
    }

    /// The transaction with what is known of it.
    fn transaction<'t, 'c>(self, inner: &'t mut PgTransaction<'c>) -> CachedTransaction<'t, 'c> {
        let catalogs = &inner.shared.remembered.catalogs;
        let catalog = self.catalog_version.map(|version| catalogs.at(inner.tenant(), version));
        CachedTransaction::new(inner, catalog).with_customer(self.customer)
    }
}

impl Shared {
    /// Runs work in a transaction, alone in its scope.
    pub(crate) fn run_work(&self, scope: &Scope, work: &mut Work<'_>) -> Result<(), Error> {
        let (isolation, custom_budget) = match scope {
            // Statements after the lock see what its last holder committed.
            Scope::Customer(..) | Scope::Catalog(_) => (Isolation::ReadCommitted, None),
            // Somebody waits for all of it at once.
            Scope::Organization(_) => (Isolation::OneSnapshot, Some(Budget::of_call())),
        };
        let attempts = Attempts::default();
        let result = self.pool.transact_at(isolation, |pg| {
            attempts.expect_another()?;
            let entered = begin(pg, scope)?;
            let now = entered.now;
            let mut tx = PgTransaction::new(pg, self, scope.organization()).with_custom_budget(custom_budget);
            let result = work(&mut entered.transaction(&mut tx), now).and_then(|()| tx.issue_all());
            attempts.note(tx.has_run_custom(), tx.verdict(result))
        });
        result.map_err(Failure::into_error)
    }

    /// The key's row first, so that a twin waits before it takes any other lock; then the scope's lock; the work in
    /// a savepoint, so that the answer of a refusal can be kept without its effects.
    pub(crate) fn run_claimed(&self, scope: &Scope, claim: &Claim, work: &mut ClaimedWork<'_>) -> Result<(), Error> {
        let organization = scope.organization();
        let attempts = Attempts::default();
        let result = self.pool.transact(|pg| {
            attempts.expect_another()?;
            idempotency::take_key(pg, organization, claim)?;
            let entered = begin(pg, scope)?;
            let now = entered.now;
            pg.batch_execute("SAVEPOINT work")?;
            let mut tx = PgTransaction::new(pg, self, organization);
            let attempt = work(&mut entered.transaction(&mut tx), now);
            let answer = attempts.note(tx.has_run_custom(), answer_of(tx, attempt))?;
            idempotency::write_answer(pg, organization, claim, &answer)
        });
        result.map_err(Failure::into_error)
    }
}

/// The answer that claimed work ended with, its effects taken back where they are not to stay.
fn answer_of(mut tx: PgTransaction<'_>, attempt: Result<Attempt, Error>) -> Result<Answer, Failure> {
    match attempt {
        Ok(Attempt::Done(answer)) => {
            let issued = tx.issue_all();
            tx.verdict(issued.map(|()| answer))
        }
        Ok(Attempt::Refused(answer)) => tx.take_back().map(|()| answer),
        Err(error) => tx.verdict(Err(error)),
    }
}

/// Takes the scope's lock, and answers the instant that holds and what is known from there on.
fn begin(pg: &mut PgConnection, scope: &Scope) -> QueryResult<Entered> {
    match scope {
        Scope::Customer(organization, customer) => {
            lock_customer(pg, customer.uuid())?;
            let (now, catalog_version, row) = enter(pg, *organization, *customer)?;
            // One that cannot be understood is read again by whoever needs it.
            let customer = row.and_then(|row| row.try_into().ok());
            Ok(Entered { now, catalog_version: catalog_version.map(CatalogVersion), customer })
        }
        Scope::Catalog(organization) => {
            lock_catalog(pg, organization.uuid())?;
            system_now(pg).map(Entered::at)
        }
        Scope::Organization(_) => system_now(pg).map(Entered::at),
    }
}
