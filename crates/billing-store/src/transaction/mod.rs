//! One open transaction: its connection, its tenant, what went wrong, and whether statements may be sent.
//!
//! It reads and writes plainly. What answers from memory instead stands around it: see `cached` and `batch`.

mod at_home;
mod deeds;
mod gate;
mod hand_on;
mod reached;

use std::collections::BTreeMap;

use billing_domain::audit::Change;
use billing_domain::custom_sql::{CustomFailure, CustomUsageRequest};
use billing_domain::id::{BillingRecordId, CustomerKey, InvoiceId, OrganizationId};
use billing_domain::invoice::NewInvoice;
use billing_domain::message::Message;
use billing_domain::store::{
    AddonRepo, ApiKeyRepo, ApprovalRepo, AuditRepo, BillingRecordRepo, BooksAuditRepo, CreditRepo, CurrencyRepo,
    CustomerRepo, EventRepo, FeatureRepo, IdentityRepo, InvoiceRepo, JobRepo, MemberRepo, MessageRepo, MetricRepo,
    OrganizationRepo, PlanRepo, SubscriptionRepo, TestClockRepo, Transaction, UsageAlertRepo, WebhookRepo,
};
use billing_domain::usage::SeenUsage;
use billing_domain::{Error, StoreError};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use self::gate::Statements;
use crate::custom_sql::Budget;
use crate::lanes::Lane;
use crate::pg::deadline;
use crate::pg::error::Failure;
use crate::reservation::Holder;
use crate::shared::Shared;

pub(crate) use self::deeds::Deeds;
pub(crate) use self::hand_on::{hand_on, repositories};
pub(crate) use self::reached::Reached;

/// An invoice of a customer that fell due at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PastDue {
    pub(crate) customer: CustomerKey,
    pub(crate) invoice: InvoiceId,
    pub(crate) at: OffsetDateTime,
}

/// One open transaction on one connection.
pub(crate) struct PgTransaction<'c> {
    pg: &'c mut PgConnection,
    pub(crate) shared: &'c Shared,
    pub(crate) organization: OrganizationId,
    /// Whose customers it reads and writes; `None`: nobody's.
    pub(crate) lane: Option<&'c Lane>,
    /// The first thing that went wrong with the database: the transaction can only be rolled back from there.
    failure: Option<Failure>,
    statements: Statements,
    /// Which revision of a billing record this transaction has seen last.
    pub(crate) revisions: BTreeMap<BillingRecordId, i64>,
    /// What is written before the invoices.
    pub(crate) reached: Reached,
    /// Invoices that are written last of all.
    pub(crate) unissued: Vec<NewInvoice>,
    /// What is told once it is committed.
    pub(crate) deeds: Deeds,
    /// Invoices that fell due, which is noted once they are there.
    pub(crate) past_due: Vec<PastDue>,
    /// Messages that are written before the invoices.
    pub(crate) new_messages: Vec<Message>,
    /// Changes that are noted before the invoices.
    pub(crate) changes: Vec<Change>,
    /// By how many minutes queued billing was moved ahead.
    pub(crate) brought_forward: Option<i64>,
    /// What is left for custom metrics, where all that is asked shares one budget.
    custom_budget: Option<Budget>,
    /// Whether a query of the organization's own was sent.
    has_run_custom: bool,
    /// Whether it has corrected events: what it reads of usage then is not remembered, since nobody knows whether it will be committed.
    pub(crate) has_corrected: bool,
    /// As whom it has reserved something at home; `None`: it has not.
    holder: Option<Holder>,
}

impl<'c> PgTransaction<'c> {
    /// On a connection of `lane`, or on one of the catalogue.
    pub(crate) fn new(
        pg: &'c mut PgConnection,
        shared: &'c Shared,
        organization: OrganizationId,
        lane: Option<&'c Lane>,
    ) -> Self {
        Self {
            pg,
            shared,
            organization,
            lane,
            failure: None,
            statements: Statements::Allowed,
            revisions: BTreeMap::new(),
            reached: Reached::default(),
            unissued: Vec::new(),
            deeds: Deeds::default(),
            past_due: Vec::new(),
            new_messages: Vec::new(),
            changes: Vec::new(),
            brought_forward: None,
            custom_budget: None,
            has_run_custom: false,
            has_corrected: false,
            holder: None,
        }
    }

    /// With one budget for all custom metrics that are asked for.
    pub(crate) fn with_custom_budget(self, custom_budget: Option<Budget>) -> Self {
        Self { custom_budget, ..self }
    }

    /// The organization's id as its column has it.
    pub(crate) fn tenant(&self) -> Uuid {
        self.organization.uuid()
    }

    /// Runs statements, and remembers a failure: it decides what becomes of the transaction.
    pub(crate) fn query<T>(&mut self, run: impl FnOnce(&mut PgConnection) -> QueryResult<T>) -> Result<T, Error> {
        self.expect_statements()?;
        deadline::check()?;
        run(self.pg).map_err(|error| self.fail(error.into()))
    }

    /// [`PgTransaction::query`] of what can fail in other ways too.
    pub(crate) fn attempt<T>(&mut self, run: impl FnOnce(&mut PgConnection) -> Result<T, Failure>) -> Result<T, Error> {
        self.expect_statements()?;
        deadline::check()?;
        run(self.pg).map_err(|failure| self.fail(failure))
    }

    /// Runs statements in every lane: in its own as part of the transaction, in each other on a connection of that, where they stay
    /// whatever becomes of the transaction. So they must do no harm without it, nor when they are sent again.
    pub(crate) fn in_every_lane(
        &mut self,
        mut run: impl FnMut(&mut PgConnection) -> QueryResult<()>,
    ) -> Result<(), Error> {
        let (shared, own) = (self.shared, self.lane.map(|lane| lane.number));
        for lane in shared.lanes.all() {
            if Some(lane.number) == own {
                self.query(&mut run)?;
            } else {
                self.expect_statements()?;
                shared.lanes.with(lane, |lane| lane.pool.run(&mut run)).map_err(Failure::into_error)?;
            }
        }
        Ok(())
    }

    /// Refuses where no statement may be sent. The error is for the work to stop, and nobody else sees it.
    fn expect_statements(&mut self) -> Result<(), Error> {
        match self.statements.pass() {
            true => Ok(()),
            false => Err(StoreError::Internal("a statement where none may be sent".to_owned()).into()),
        }
    }

    /// From here on no statement is sent.
    pub(crate) fn refuse_statements(&mut self) {
        self.statements = Statements::Refused { missed: false };
    }

    /// From here on statements are sent again; whether one was missed.
    pub(crate) fn allow_statements(&mut self) -> bool {
        let refused = std::mem::replace(&mut self.statements, Statements::Allowed);
        refused == Statements::Refused { missed: true }
    }

    /// Does what may be done with statements even where none are sent otherwise.
    pub(crate) fn with_statements<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.statements, Statements::Allowed);
        let done = work(self);
        self.statements = before;
        done
    }

    /// Runs queries of custom metrics, on connections of their own.
    pub(crate) fn run_custom(
        &mut self,
        requests: &[CustomUsageRequest],
    ) -> Result<Vec<Result<SeenUsage, CustomFailure>>, Error> {
        self.expect_statements()?;
        self.has_run_custom = true;
        let mut budget = self.custom_budget.unwrap_or_else(Budget::of_call);
        let lane =
            self.lane.ok_or_else(|| StoreError::Internal("a custom metric where there is no customer".to_owned()))?;
        let usages = lane.reader.usages(self.tenant(), self.shared.key_ranges, requests, &mut budget);
        let usages = usages.map_err(|failure| match failure {
            Failure::Missing(_) => self.fail(failure),
            other => other.into_error(),
        });
        if let Some(left) = &mut self.custom_budget {
            *left = budget;
        }
        usages
    }

    /// What is left for custom metrics, where all that is asked shares one budget.
    pub(crate) fn custom_budget(&self) -> Option<Budget> {
        self.custom_budget
    }

    /// Notes that a query of the organization's own was sent for this transaction, on another connection.
    pub(crate) fn note_custom(&mut self) {
        self.has_run_custom = true;
    }

    /// Whether a query of the organization's own was sent.
    pub(crate) fn has_run_custom(&self) -> bool {
        self.has_run_custom
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
            Failure::Missing(message) => (Failure::Missing(message.clone()), StoreError::Internal(message).into()),
        };
        self.failure.get_or_insert(kept);
        error
    }

    /// Whether a statement has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The failure that decides what becomes of the transaction, if there was one.
    pub(crate) fn into_failure(self) -> Option<Failure> {
        self.failure
    }

    /// What becomes of the transaction when its work ended with `result`.
    pub(crate) fn verdict<T>(self, result: Result<T, Error>) -> Result<T, Failure> {
        match (self.failure, result) {
            (Some(failure @ (Failure::Conflict(_) | Failure::Disconnected(_) | Failure::Missing(_))), _) => {
                Err(failure)
            }
            // The work may have made another error of it.
            (_, Err(error)) => Err(error.into()),
            // After a failed statement only a rollback is possible, even if the work made nothing of it.
            (Some(failure), Ok(_)) => Err(failure),
            (None, Ok(done)) => Ok(done),
        }
    }

    /// Takes back what was done since the savepoint `work`.
    pub(crate) fn take_back(self) -> Result<(), Failure> {
        match self.failure {
            Some(failure @ (Failure::Conflict(_) | Failure::Disconnected(_) | Failure::Missing(_))) => Err(failure),
            _ => Ok(self.pg.batch_execute("ROLLBACK TO SAVEPOINT work")?),
        }
    }
}

impl Transaction for PgTransaction<'_> {
    fn organization(&self) -> OrganizationId {
        self.organization
    }

    fn new_uuid(&mut self) -> Uuid {
        Uuid::now_v7()
    }

    repositories! { self =>
        organizations: OrganizationRepo,
        api_keys: ApiKeyRepo,
        currencies: CurrencyRepo,
        metrics: MetricRepo,
        features: FeatureRepo,
        plans: PlanRepo,
        addons: AddonRepo,
        test_clocks: TestClockRepo,
        customers: CustomerRepo,
        subscriptions: SubscriptionRepo,
        billing_records: BillingRecordRepo,
        invoices: InvoiceRepo,
        credits: CreditRepo,
        events: EventRepo,
        messages: MessageRepo,
        usage_alerts: UsageAlertRepo,
        webhooks: WebhookRepo,
        jobs: JobRepo,
        books_audits: BooksAuditRepo,
        members: MemberRepo,
        identities: IdentityRepo,
        approvals: ApprovalRepo,
        audit_log: AuditRepo,
    }
}
