//! How an organization stands: what a person wants to know in the morning.

use bigdecimal::BigDecimal;

use crate::error::Error;
use crate::id::OrganizationId;

/// What was invoiced in one currency. Voided invoices do not count, nor do those of customers under a test clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoiced {
    /// The currency's code.
    pub currency_code: String,
    /// Amounts of the invoices issued since the first of the month, UTC.
    pub this_month: BigDecimal,
    /// Amounts of those issued in the month before.
    pub last_month: BigDecimal,
}

/// How an organization stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// By the code of the currency.
    pub invoiced: Vec<Invoiced>,
    /// Customers in real time whose billing is due.
    pub customers_due: u64,
    /// Those of them that are left alone because their billing failed too often.
    pub customers_parked: u64,
    /// How long ago the first of the others fell due; zero when there is none.
    pub lag: time::Duration,
    /// Webhook endpoints of which every attempt has failed for a while.
    pub webhooks_failing: u64,
}

/// Tells how organizations stand.
pub trait Overviews: Send + Sync {
    /// How this one does, at this moment.
    fn overview(&self, organization: OrganizationId) -> Result<Overview, Error>;
}
