//! One transaction on a copy of the state.

use std::sync::Arc;

use uuid::Uuid;

use super::message::Told;
use super::{AccountState, State, Tenant};
use crate::error::{Error, Noun};
use crate::id::{CustomerKey, OrganizationId};
use crate::store::{
    AddonRepo, BillingRecordRepo, CreditRepo, CurrencyRepo, CustomerRepo, EventRepo, FeatureRepo, InvoiceRepo,
    MessageRepo, MetricRepo, OrganizationRepo, PlanRepo, Renderer, SubscriptionRepo, TestClockRepo, Transaction,
};
#[cfg(feature = "service")]
use crate::store::{
    ApiKeyRepo, ApprovalRepo, AuditRepo, BooksAuditRepo, IdentityRepo, JobRepo, MemberRepo, UsageAlertRepo, WebhookRepo,
};

/// A transaction: whatever it does, it does to its own copy.
pub(super) struct MemoryTransaction {
    pub organization: OrganizationId,
    pub state: State,
    pub renderer: Arc<dyn Renderer>,
    /// Whether it wrote messages.
    pub has_told: bool,
    /// Whether it marked customers whose figures are to be looked at.
    pub has_marked: bool,
}

impl MemoryTransaction {
    pub fn new(organization: OrganizationId, state: State, told: &Told) -> Self {
        Self { organization, state, renderer: told.renderer(), has_told: false, has_marked: false }
    }

    pub fn tenant(&mut self) -> Result<&mut Tenant, Error> {
        self.state
            .tenants
            .get_mut(&self.organization)
            .map(|tenant| &mut **tenant)
            .ok_or(Error::NotFound(Noun::Organization))
    }

    /// The account of a customer that exists.
    pub fn account(&mut self, key: CustomerKey) -> Result<&mut AccountState, Error> {
        let account = self.tenant()?.accounts.get_mut(&key).filter(|account| account.customer.is_some());
        account.map(|account| &mut **account).ok_or(Error::NotFound(Noun::Customer))
    }
}

impl Transaction for MemoryTransaction {
    fn organization(&self) -> OrganizationId {
        self.organization
    }

    fn new_uuid(&mut self) -> Uuid {
        self.state.new_uuid()
    }

    fn organizations(&mut self) -> &mut dyn OrganizationRepo {
        self
    }

    #[cfg(feature = "service")]
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

    fn messages(&mut self) -> &mut dyn MessageRepo {
        self
    }

    #[cfg(feature = "service")]
    fn approvals(&mut self) -> &mut dyn ApprovalRepo {
        self
    }

    #[cfg(feature = "service")]
    fn audit_log(&mut self) -> &mut dyn AuditRepo {
        self
    }

    #[cfg(feature = "service")]
    fn members(&mut self) -> &mut dyn MemberRepo {
        self
    }

    #[cfg(feature = "service")]
    fn identities(&mut self) -> &mut dyn IdentityRepo {
        self
    }

    #[cfg(feature = "service")]
    fn jobs(&mut self) -> &mut dyn JobRepo {
        self
    }

    #[cfg(feature = "service")]
    fn books_audits(&mut self) -> &mut dyn BooksAuditRepo {
        self
    }

    #[cfg(feature = "service")]
    fn usage_alerts(&mut self) -> &mut dyn UsageAlertRepo {
        self
    }

    #[cfg(feature = "service")]
    fn webhooks(&mut self) -> &mut dyn WebhookRepo {
        self
    }
}
