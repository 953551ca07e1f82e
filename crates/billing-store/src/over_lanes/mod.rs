//! A transaction about customers of several lanes: the catalogue is its own, and of customers each lane is asked by itself.
//!
//! Each question is a snapshot of its lane. What belongs together of one customer is in one lane; of two lanes nobody sees one
//! instant. Nothing of a customer's is changed here: that is done in a transaction of its lane.

mod account;
mod catalog;
mod journal;
mod methods;

use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{
    AddonRepo, ApiKeyRepo, ApprovalRepo, AuditRepo, BillingRecordRepo, BooksAuditRepo, CreditRepo, CurrencyRepo,
    CustomerRepo, EventRepo, FeatureRepo, IdentityRepo, InvoiceRepo, JobRepo, MemberRepo, MessageRepo, MetricRepo,
    OrganizationRepo, PlanRepo, SubscriptionRepo, TestClockRepo, Transaction, UsageAlertRepo, WebhookRepo,
};
use billing_domain::{Error, Noun};
use uuid::Uuid;

use crate::cached::CachedTransaction;
use crate::custom_sql::{Attempts, Budget};
use crate::lanes::Lane;
use crate::pg::deadline;
use crate::pg::error::Failure;
use crate::shared::Shared;
use crate::transaction::{PgTransaction, repositories};

/// A transaction of the catalogue that asks all lanes about customers.
pub(crate) struct OverLanes<'t, 'c> {
    inner: CachedTransaction<'t, 'c>,
    /// What is left for custom metrics, whichever lane they are about.
    custom_budget: Option<Budget>,
}

impl<'t, 'c> OverLanes<'t, 'c> {
    /// Of a transaction of the catalogue.
    pub(crate) fn new(inner: CachedTransaction<'t, 'c>) -> Self {
        let custom_budget = inner.inner.custom_budget();
        Self { inner, custom_budget }
    }

    fn shared(&self) -> &'c Shared {
        self.inner.inner.shared
    }

    /// Asks one lane, in a snapshot of it.
    fn ask<T>(
        &mut self,
        lane: &'c Lane,
        mut work: impl FnMut(&mut PgTransaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (shared, organization) = (self.shared(), self.inner.inner.organization);
        let (mut left, mut has_run_custom) = (self.custom_budget, false);
        let asked = shared.lanes.with(lane, |lane| {
            let attempts = Attempts::default();
            lane.pool.read_together(|pg| {
                attempts.expect_another()?;
                deadline::check()?;
                let tx = PgTransaction::new(pg, shared, organization, Some(lane));
                let mut tx = tx.with_custom_budget(self.custom_budget);
                let result = work(&mut tx);
                left = tx.custom_budget();
                has_run_custom |= tx.has_run_custom();
                attempts.note(tx.has_run_custom(), tx.verdict(result))
            })
        });
        self.custom_budget = left;
        if has_run_custom {
            self.inner.inner.note_custom();
        }
        asked.map_err(Failure::into_error)
    }

    /// Asks the lane of a customer.
    fn of<T>(
        &mut self,
        customer: CustomerKey,
        work: impl FnMut(&mut PgTransaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.ask(self.shared().lanes.of(customer), work)
    }

    /// Asks every lane, by number.
    fn each<T>(&mut self, mut work: impl FnMut(&mut PgTransaction<'_>) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        self.shared().lanes.all().map(|lane| self.ask(lane, &mut work)).collect()
    }

    /// Asks one lane after the other until one has it.
    fn find<T>(
        &mut self,
        noun: Noun,
        mut work: impl FnMut(&mut PgTransaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        for lane in self.shared().lanes.all() {
            match self.ask(lane, &mut work) {
                Err(Error::NotFound(_)) => {}
                found => return found,
            }
        }
        Err(Error::NotFound(noun))
    }

    /// Asks the lanes of some customers, each about its own.
    fn of_each<T>(
        &mut self,
        customers: &[CustomerKey],
        mut work: impl FnMut(&mut PgTransaction<'_>, &[CustomerKey]) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let apart = self.shared().lanes.apart(customers.iter().copied(), |customer| *customer);
        let ask = |(lane, placed): (&'c Lane, Vec<(usize, CustomerKey)>)| {
            let customers: Vec<CustomerKey> = placed.into_iter().map(|(_, customer)| customer).collect();
            self.ask(lane, |tx| work(tx, &customers))
        };
        apart.into_iter().map(ask).collect()
    }

    /// Asks the lanes of what some requests are about, each about its own; the answers are in the order of the requests.
    fn of_requests<R: Clone, T>(
        &mut self,
        requests: &[R],
        customer: impl Fn(&R) -> CustomerKey,
        mut work: impl FnMut(&mut PgTransaction<'_>, &[R]) -> Result<Vec<T>, Error>,
    ) -> Result<Vec<T>, Error> {
        let apart = self.shared().lanes.apart(requests.iter().cloned(), customer);
        let mut answers = Vec::with_capacity(requests.len());
        for (lane, placed) in apart {
            let (places, requests): (Vec<usize>, Vec<R>) = placed.into_iter().unzip();
            answers.extend(places.into_iter().zip(self.ask(lane, |tx| work(tx, &requests))?));
        }
        answers.sort_unstable_by_key(|(place, _)| *place);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }
}

impl Transaction for OverLanes<'_, '_> {
    fn organization(&self) -> OrganizationId {
        self.inner.organization()
    }

    fn new_uuid(&mut self) -> Uuid {
        self.inner.new_uuid()
    }

    repositories! { self =>
        plans: PlanRepo,
        test_clocks: TestClockRepo,
        customers: CustomerRepo,
        subscriptions: SubscriptionRepo,
        billing_records: BillingRecordRepo,
        invoices: InvoiceRepo,
        credits: CreditRepo,
        events: EventRepo,
        messages: MessageRepo,
        usage_alerts: UsageAlertRepo,
        audit_log: AuditRepo,
    }

    repositories! { inner =>
        organizations: OrganizationRepo,
        api_keys: ApiKeyRepo,
        currencies: CurrencyRepo,
        metrics: MetricRepo,
        features: FeatureRepo,
        addons: AddonRepo,
        webhooks: WebhookRepo,
        jobs: JobRepo,
        books_audits: BooksAuditRepo,
        approvals: ApprovalRepo,
        members: MemberRepo,
        identities: IdentityRepo,
    }
}
