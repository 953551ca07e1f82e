//! How an organization stands: what a person wants to know in the morning.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::customer::CustomerId;
use crate::error::Error;
use crate::id::OrganizationId;
use crate::store::{EventWatch, ExchangedEvents, PassedEvents, RecentEvents};

/// What was invoiced in one currency. Voided invoices do not count, nor do those of customers under a test clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoiced {
    /// The currency's code.
    pub currency_code: String,
    /// Amounts of the invoices issued since the first of the month, UTC.
    pub this_month: BigDecimal,
    /// Amounts of those issued in the month before.
    pub last_month: BigDecimal,
    /// Of these what was issued as early in that month as it is in this one.
    pub last_month_so_far: BigDecimal,
}

/// How an organization stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// By the code of the currency, those of which all came to nothing left out.
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

/// A customer in real time whose billing is due, or is left alone because it failed too often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The customer, by the caller's own id.
    pub customer: CustomerId,
    /// The earliest instant at which anything was due.
    pub due_at: OffsetDateTime,
    /// How often in a row its billing has failed.
    pub failures: u32,
    /// Why it failed the last time, if it did since it was last billed.
    pub failure: Option<String>,
    /// Whether it is left alone until somebody has it tried again.
    pub is_parked: bool,
}

/// Tells how organizations stand.
pub trait Overviews: Send + Sync {
    /// How this one does, at this moment.
    fn overview(&self, organization: OrganizationId) -> Result<Overview, Error>;
    /// At most `limit` of its customers whose billing is due by now: parked ones first, then those that failed, then the others, each the
    /// longest overdue first, and then by their ids.
    fn billing_queue(&self, organization: OrganizationId, limit: u32) -> Result<Vec<Queued>, Error>;
    /// The events that came in lately, as far as [`Overviews::note_events`] has noted them.
    fn recent_events(&self, organization: OrganizationId) -> Result<RecentEvents, Error>;
    /// Notes what was counted of events since the last time, for everybody to see; a store that nobody else sees has nothing to do. What is
    /// not noted yet is lost with the process: these figures are for people.
    fn note_events(&self) -> Result<(), Error> {
        Ok(())
    }
    /// Tells the other processes over the same store which events are `watched` in this one, and gives them what was gathered for them: what
    /// they watch, and what they have gathered for this process since the last time. To be asked once a second or so while anything is
    /// watched: whoever has not asked for a few seconds watches nothing any more. A store that nobody else sees has nothing to do.
    fn exchange_events(
        &self,
        _process: Uuid,
        _watched: &[EventWatch],
        _gathered: Vec<PassedEvents>,
    ) -> Result<ExchangedEvents, Error> {
        Ok(ExchangedEvents::default())
    }
}
