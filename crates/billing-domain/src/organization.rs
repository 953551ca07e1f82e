//! The tenant and its settings.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use crate::address::Address;
use crate::id::OrganizationId;
use crate::tax::{TaxFailure, TaxHook, TaxProvider};

/// A tenant: the owner of every metric, plan, customer and invoice, and the seller on those invoices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Organization {
    /// Its id.
    pub id: OrganizationId,
    /// Its name, as invoices show it.
    pub name: String,
    /// Code of the currency that customers get when none is named.
    pub default_currency_code: String,
    /// IANA zone that new customers inherit.
    pub timezone: String,
    /// Sales tax in percent (10.5 means 10.5 %), unless the customer has a rate of its own.
    pub tax_rate: Option<BigDecimal>,
    /// Who is asked for tax rates, in order, after those that the customer names.
    pub tax_providers: Vec<TaxProvider>,
    /// Where [`TaxProvider::Http`] is asked.
    pub tax_hook: Option<TaxHook>,
    /// What becomes of an invoice when it fails.
    pub on_tax_failure: TaxFailure,
    /// Days from an invoice's issue to its due date; `None` or 0: no due date.
    pub payment_grace_period_days: Option<u16>,
    /// How long a scheduled invoice waits for late events after its billing instant, in minutes.
    pub invoice_grace_minutes: u32,
    /// Event properties that subscription filters may name; usage is rolled up by them.
    pub subscription_filter_keys: Vec<String>,
    /// How several subscriptions decide one access check together.
    pub access_policy: AccessPolicy,
    /// How old an event may be when it arrives, in days.
    pub event_window_days: u16,
    /// The seller's address on invoices.
    pub address: Option<Address>,
    /// What one person may give away or take without another, as a number that holds for each currency; `None`: everything.
    pub approval_limit: Option<BigDecimal>,
    /// When it was created.
    pub created_at: OffsetDateTime,
}

impl Organization {
    /// Minutes that scheduled invoices wait unless the organization says otherwise.
    pub const INVOICE_GRACE_MINUTES_DEFAULT: u32 = 30;
    /// Days back that events are accepted unless the organization says otherwise.
    pub const EVENT_WINDOW_DAYS_DEFAULT: u16 = 30;
    /// Most properties that subscription filters may name in one organization.
    pub const SUBSCRIPTION_FILTER_KEYS_MAX: usize = 20;

    /// An organization with every setting at its default.
    pub fn new(id: OrganizationId, name: &str, created_at: OffsetDateTime) -> Self {
        Self {
            id,
            name: name.to_owned(),
            default_currency_code: "USD".to_owned(),
            timezone: "UTC".to_owned(),
            tax_rate: None,
            tax_providers: vec![TaxProvider::FlatRate],
            tax_hook: None,
            on_tax_failure: TaxFailure::Wait,
            payment_grace_period_days: None,
            invoice_grace_minutes: Self::INVOICE_GRACE_MINUTES_DEFAULT,
            subscription_filter_keys: Vec::new(),
            access_policy: AccessPolicy::All,
            event_window_days: Self::EVENT_WINDOW_DAYS_DEFAULT,
            address: None,
            approval_limit: None,
            created_at,
        }
    }

    /// How long a scheduled invoice waits after its billing instant.
    pub fn invoice_grace(&self) -> time::Duration {
        time::Duration::minutes(i64::from(self.invoice_grace_minutes))
    }

    /// How old an event may be when it arrives.
    pub fn event_window(&self) -> time::Duration {
        time::Duration::days(i64::from(self.event_window_days))
    }

    /// When an invoice issued at `issued_at` falls due.
    pub fn due_at(&self, issued_at: OffsetDateTime) -> Option<OffsetDateTime> {
        let days = self.payment_grace_period_days.filter(|days| *days > 0)?;
        Some(issued_at + time::Duration::days(i64::from(days)))
    }
}

choices! {
    /// How several subscriptions that have a metric decide one access check.
    pub AccessPolicy {
        /// Every one of them must be below its limit.
        All = "all",
        /// One of them below its limit is enough.
        Any = "any",
    }
}
