//! Transactions: alone in their scope, at the instant that holds there, run again when another was in the way.

use std::collections::BTreeMap;

use billing_domain::customer::Customer;
use billing_domain::id::{BillingRecordId, OrganizationId};
use billing_domain::idempotency::{Answer, Attempt, Claim};
use billing_domain::invoice::NewInvoice;
use billing_domain::store::{
    AddonRepo, ApiKeyRepo, BillingRecordRepo, ClaimedWork, CreditRepo, CurrencyRepo, CustomerRepo, EventRepo,
    FeatureRepo, InvoiceRepo, MetricRepo, OrganizationRepo, PlanRepo, Scope, SubscriptionRepo, TestClockRepo,
    Transaction, Work,
};
use billing_domain::{Error, StoreError};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::access::prefetch::Prefetched;
use crate::batch::BatchMember;
use crate::catalog::VersionedCatalog;
use crate::custom_sql::{Attempts, Budget};
use crate::pg::deadline;
use crate::pg::error::Failure;
use crate::pg::lock::{lock_catalog, lock_customer};
use crate::pg::now::system_now;
use crate::pg::transact::Isolation;
use crate::repo::customer::enter;
use crate::repo::idempotency;
use crate::store::{PgStore, Shared};

/// One open transaction on one connection.
pub(crate) struct PgTransaction<'c> {
    pg: &'c mut PgConnection,
    pub(crate) shared: &'c Shared,
    pub(crate) organization: OrganizationId,
    /// The first thing that went wrong with the database: the transaction can only be rolled back from there.
    failure: Option<Failure>,
    /// What was read before it was asked for; only where nothing is written.
    pub(crate) prefetched: Prefetched,
    /// What is remembered of the catalogue; `None`: it is read.
    pub(crate) catalog: Option<VersionedCatalog>,
    /// The customer that the transaction is alone with, as it is.
    pub(crate) own_customer: Option<Customer>,
    /// Which revision of a billing record this transaction has seen last.
    pub(crate) revisions: BTreeMap<BillingRecordId, i64>,
    /// Invoices that are written last of all.
    pub(crate) unissued: Vec<NewInvoice>,
    /// The customer of a batch whose turn it is.
    pub(crate) batch_member: Option<Box<BatchMember>>,
    /// While no statement may be sent: whether one was missed.
    missed: Option<bool>,
    /// What is left for custom metrics, where all that is asked shares one budget.
    pub(crate) custom_budget: Option<Budget>,
    /// Whether a query of the organization's own was sent.
    pub(crate) has_run_custom: bool,
}

/// What a transaction knows when it has its lock.
struct Entered {
    now: OffsetDateTime,
    /// That of the organization's catalogue.
    catalog_version: Option<Uuid>,
    customer: Option<Customer>,
}

impl Entered {
    fn at(now: OffsetDateTime) -> Self {
        Self { now, catalog_version: None, customer: None }
    }
}

impl<'c> PgTransaction<'c> {
    pub(crate) fn new(pg: &'c mut PgConnection, shared: &'c Shared, organization: OrganizationId) -> Self {
        Self {
            pg,
            shared,
            organization,
            failure: None,
            prefetched: Prefetched::default(),
            catalog: None,
            own_customer: None,
            revisions: BTreeMap::new(),
            unissued: Vec::new(),
            batch_member: None,
            missed: None,
            custom_budget: None,
            has_run_custom: false,
        }
    }

    fn entered(pg: &'c mut PgConnection, shared: &'c Shared, organization: OrganizationId, entered: Entered) -> Self {
        let catalog =
            entered.catalog_version.map(|catalog_version| shared.catalogs.at(organization.uuid(), catalog_version));
        Self { catalog, own_customer: entered.customer, ..Self::new(pg, shared, organization) }
    }

    /// The organization's id as its column has it.
    pub(crate) fn tenant(&self) -> Uuid {
        self.organization.uuid()
    }

    /// Runs statements, and remembers a failure: it decides what becomes of the transaction. Nothing is run for one customer
    /// of a batch alone.
    pub(crate) fn query<T>(&mut self, run: impl FnOnce(&mut PgConnection) -> QueryResult<T>) -> Result<T, Error> {
        self.expect_statement()?;
        deadline::check()?;
        run(self.pg).map_err(|error| self.fail(error.into()))
    }

    /// Refuses where no statement may be sent.
    pub(crate) fn expect_statement(&mut self) -> Result<(), Error> {
        if let Some(batch_member) = &mut self.batch_member {
            return Err(batch_member.fall_back());
        }
        if let Some(has_missed) = &mut self.missed {
            *has_missed = true;
            return Err(StoreError::Internal("a statement where none may be sent".to_owned()).into());
        }
        Ok(())
    }

    /// What `work` comes to without a statement; `None` where it misses one.
    pub(crate) fn without_statements<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.missed = Some(false);
        let done = work(self);
        (self.missed.take() == Some(false)).then_some(done)
    }

    fn fail(&mut self, failure: Failure) -> Error {
        let (kept, error) = match failure {
            Failure::Final(error) => (Failure::Final(error.clone()), error),
            Failure::Conflict(message) => {
                let error = StoreError::LockTimeout.into();
                (Failure::Conflict(message), error)
            }
            Failure::Disconnected(message) => {
                (Failure::Disconnected(message.clone()), StoreError::Unavailable(message).into())
            }
        };
        self.failure.get_or_insert(kept);
        error
    }

    /// The failure that decides what becomes of the transaction, if there was one.
    pub(crate) fn into_failure(self) -> Option<Failure> {
        self.failure
    }

    /// Whether a statement has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// What becomes of the transaction when its work ended with `result`.
    fn verdict(self, result: Result<(), Error>) -> Result<(), Failure> {
        match (self.failure, result) {
            (Some(failure @ (Failure::Conflict(_) | Failure::Disconnected(_))), _) => Err(failure),
            // The work may have made another error of it.
            (_, Err(error)) => Err(error.into()),
            // After a failed statement only a rollback is possible, even if the work made nothing of it.
            (Some(failure), Ok(())) => Err(failure),
            (None, Ok(())) => Ok(()),
        }
    }

    /// The answer that claimed work ended with, its effects undone where they are not to stay.
    fn settle(mut self, attempt: Result<Attempt, Error>) -> Result<Answer, Failure> {
        let attempt = attempt.and_then(|attempt| match attempt {
            Attempt::Done(answer) => self.issue_all().map(|()| Attempt::Done(answer)),
            refused @ Attempt::Refused(_) => Ok(refused),
        });
        match (self.failure, attempt) {
            (Some(failure @ (Failure::Conflict(_) | Failure::Disconnected(_))), _) => Err(failure),
            (_, Err(error)) => Err(error.into()),
            (_, Ok(Attempt::Refused(answer))) => {
                self.pg.batch_execute("ROLLBACK TO SAVEPOINT work")?;
                Ok(answer)
            }
            (Some(failure), Ok(Attempt::Done(_))) => Err(failure),
            (None, Ok(Attempt::Done(answer))) => Ok(answer),
        }
    }
}

impl PgStore {
    pub(crate) fn run_work(&self, scope: &Scope, work: &mut Work<'_>) -> Result<(), Error> {
        let (isolation, custom_budget) = match scope {
            // Statements after the lock see what its last holder committed.
            Scope::Customer(..) | Scope::Catalog(_) => (Isolation::ReadCommitted, None),
            // Somebody waits for all of it at once.
            Scope::Organization(_) => (Isolation::OneSnapshot, Some(Budget::of_call())),
        };
        let attempts = Attempts::default();
        let result = self.shared.pool.transact_at(isolation, |pg| {
            attempts.expect_another()?;
            let entered = begin(pg, scope)?;
            let now = entered.now;
            let mut transaction = PgTransaction::entered(pg, &self.shared, scope.organization(), entered);
            transaction.custom_budget = custom_budget;
            let result = work(&mut transaction, now).and_then(|()| transaction.issue_all());
            let has_run_custom = transaction.has_run_custom;
            attempts.note(has_run_custom, transaction.verdict(result))
        });
        result.map_err(Failure::into_error)
    }

    /// The key's row first, so that a twin waits before it takes any other lock; then the scope's lock; the work in
    /// a savepoint, so that the answer of a refusal can be kept without its effects.
    pub(crate) fn run_claimed(&self, scope: &Scope, claim: &Claim, work: &mut ClaimedWork<'_>) -> Result<(), Error> {
        let organization = scope.organization();
        let attempts = Attempts::default();
        let result = self.shared.pool.transact(|pg| {
            attempts.expect_another()?;
            idempotency::take_key(pg, organization, claim)?;
            let entered = begin(pg, scope)?;
            let now = entered.now;
            pg.batch_execute("SAVEPOINT work")?;
            let mut transaction = PgTransaction::entered(pg, &self.shared, organization, entered);
            let attempt = work(&mut transaction, now);
            let has_run_custom = transaction.has_run_custom;
            let answer = attempts.note(has_run_custom, transaction.settle(attempt))?;
            idempotency::write_answer(pg, organization, claim, &answer)
        });
        result.map_err(Failure::into_error)
    }
}

/// Takes the scope's lock, and answers the instant that holds and what is known from there on.
fn begin(pg: &mut PgConnection, scope: &Scope) -> QueryResult<Entered> {
    match scope {
        Scope::Customer(organization, customer) => {
            lock_customer(pg, customer.uuid())?;
            let (now, catalog_version, row) = enter(pg, *organization, *customer)?;
            // One that cannot be understood is read again by whoever needs it.
            Ok(Entered { now, catalog_version, customer: row.and_then(|row| row.try_into().ok()) })
        }
        Scope::Catalog(organization) => {
            lock_catalog(pg, organization.uuid())?;
            system_now(pg).map(Entered::at)
        }
        Scope::Organization(_) => system_now(pg).map(Entered::at),
    }
}

impl Transaction for PgTransaction<'_> {
    fn organization(&self) -> OrganizationId {
        self.organization
    }

    fn new_uuid(&mut self) -> Uuid {
        Uuid::now_v7()
    }

    fn organizations(&mut self) -> &mut dyn OrganizationRepo {
        self
    }

    fn api_keys(&mut self) -> &mut dyn ApiKeyRepo {
        self
    }

    fn currencies(&mut self) -> &mut dyn CurrencyRepo {
        self
    }

    fn metrics(&mut self) -> &mut dyn MetricRepo {
        self
    }

    fn features(&mut self) -> &mut dyn FeatureRepo {
        self
    }

    fn plans(&mut self) -> &mut dyn PlanRepo {
        self
    }

    fn addons(&mut self) -> &mut dyn AddonRepo {
        self
    }

    fn test_clocks(&mut self) -> &mut dyn TestClockRepo {
        self
    }

    fn customers(&mut self) -> &mut dyn CustomerRepo {
        self
    }

    fn subscriptions(&mut self) -> &mut dyn SubscriptionRepo {
        self
    }

    fn billing_records(&mut self) -> &mut dyn BillingRecordRepo {
        self
    }

    fn invoices(&mut self) -> &mut dyn InvoiceRepo {
        self
    }

    fn credits(&mut self) -> &mut dyn CreditRepo {
        self
    }

    fn events(&mut self) -> &mut dyn EventRepo {
        self
    }
}
