//! Requests for a second person, and a transaction in which one has approved.

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    AddonRepo, ApiKeyRepo, AuditRepo, BillingRecordRepo, BooksAuditRepo, CreditRepo, CurrencyRepo, CustomerRepo,
    EventRepo, FeatureRepo, IdentityRepo, InvoiceRepo, JobRepo, MemberRepo, MessageRepo, MetricRepo, OrganizationRepo,
    Page, PageRequest, PlanRepo, SubscriptionRepo, TestClockRepo, Transaction, UsageAlertRepo, WebhookRepo,
};
use crate::approval::{Approval, ApprovalState, Approved};
use crate::error::Error;
use crate::id::{ApprovalId, OrganizationId};

/// The organization's requests for approvals.
pub trait ApprovalRepo {
    /// Keeps a new request.
    fn insert(&mut self, approval: &Approval) -> Result<(), Error>;
    /// The request.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn get(&mut self, id: ApprovalId) -> Result<Approval, Error>;
    /// Requests, newest first: those that stand so at `now`, or all.
    fn list(
        &mut self,
        state: Option<ApprovalState>,
        now: OffsetDateTime,
        page: &PageRequest,
    ) -> Result<Page<Approval>, Error>;
    /// Notes where it stands, who decided and what came of it.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn update(&mut self, approval: &Approval) -> Result<(), Error>;
}

/// A transaction in which a call is made that a second person has approved.
pub struct ApprovedTransaction<'t> {
    inner: &'t mut dyn Transaction,
    approved: Approved,
}

impl<'t> ApprovedTransaction<'t> {
    /// Around a transaction.
    pub fn new(inner: &'t mut dyn Transaction, approved: Approved) -> Self {
        Self { inner, approved }
    }
}

macro_rules! hand_on {
    ($($name:ident: $repo:ty;)*) => {
        $(fn $name(&mut self) -> &mut $repo { self.inner.$name() })*
    };
}

impl Transaction for ApprovedTransaction<'_> {
    fn organization(&self) -> OrganizationId {
        self.inner.organization()
    }

    fn new_uuid(&mut self) -> Uuid {
        self.inner.new_uuid()
    }

    fn approved(&self) -> Option<&Approved> {
        Some(&self.approved)
    }

    hand_on! {
        organizations: dyn OrganizationRepo;
        api_keys: dyn ApiKeyRepo;
        currencies: dyn CurrencyRepo;
        metrics: dyn MetricRepo;
        features: dyn FeatureRepo;
        plans: dyn PlanRepo;
        addons: dyn AddonRepo;
        test_clocks: dyn TestClockRepo;
        customers: dyn CustomerRepo;
        subscriptions: dyn SubscriptionRepo;
        billing_records: dyn BillingRecordRepo;
        invoices: dyn InvoiceRepo;
        credits: dyn CreditRepo;
        events: dyn EventRepo;
        messages: dyn MessageRepo;
        approvals: dyn ApprovalRepo;
        audit_log: dyn AuditRepo;
        members: dyn MemberRepo;
        identities: dyn IdentityRepo;
        jobs: dyn JobRepo;
        books_audits: dyn BooksAuditRepo;
        usage_alerts: dyn UsageAlertRepo;
        webhooks: dyn WebhookRepo;
    }
}
