//! Usage alerts: what they are, for whom they have fired, and who is to be looked at.

use time::OffsetDateTime;

use crate::error::Error;
use crate::id::{CustomerKey, OrganizationId, UsageAlertId};
use crate::usage_alert::{AlertHeadroom, Firing, LaterLook, UsageAlert};

/// The organization's usage alerts.
pub trait UsageAlertRepo {
    /// Keeps a new alert. Whoever it may concern is marked soon after the commit: [`AlertQueue::mark_concerned`].
    fn insert(&mut self, alert: &UsageAlert) -> Result<(), Error>;
    /// The alert.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn get(&mut self, id: UsageAlertId) -> Result<UsageAlert, Error>;
    /// All alerts, oldest first.
    fn list(&mut self) -> Result<Vec<UsageAlert>, Error>;
    /// Forgets the alert: it fires no more.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn delete(&mut self, id: UsageAlertId) -> Result<(), Error>;
    /// Whether the alert has fired for the customer and the interval.
    fn has_fired(&mut self, firing: &Firing) -> Result<bool, Error>;
    /// Notes that it fires, which it has not before.
    fn insert_firing(&mut self, firing: &Firing, at: OffsetDateTime) -> Result<(), Error>;
    /// Has the customer's figures looked at once the transaction is committed. Whoever is told of is marked anyway, and so is
    /// whoever stores events; this is for what changes a figure otherwise.
    fn mark(&mut self, customer: CustomerKey) -> Result<(), Error>;
}

/// A customer whose figures are to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MarkedCustomer {
    /// Whose customer.
    pub organization: OrganizationId,
    /// The customer.
    pub customer: CustomerKey,
    /// The earliest of the instants, in the customer's time, at which events were stored, or began to count, that were not looked at.
    pub since: Option<OffsetDateTime>,
    /// Whether there may be events that are dated ahead: some were when they were stored, or something else than events has changed.
    pub may_lie_ahead: bool,
    /// The marks.
    pub marks: Vec<i64>,
    /// What headroom that is found now stands on.
    pub version: HeadroomVersion,
    /// The headroom that was found when the figures were looked at; none before.
    pub headroom: Option<AlertHeadroom>,
    /// When they are to be looked at again, which was found with it.
    pub later: Option<LaterLook>,
}

/// What headroom stands on besides events, as it was when the marks were listed: where it is another one by now, headroom that was
/// found meanwhile is of no use. The store's own; nobody else looks at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadroomVersion {
    /// How often the customer was marked for something else than an event; `None`: not once.
    pub changes: Option<i64>,
    /// The version of what ingestion looks at, the organization's alerts among it.
    pub ingest_version: i64,
}

impl MarkedCustomer {
    /// A customer with these marks.
    pub fn new(
        (organization, customer): (OrganizationId, CustomerKey),
        since: Option<OffsetDateTime>,
        marks: Vec<i64>,
    ) -> Self {
        let (version, headroom) = (HeadroomVersion::default(), None);
        Self { organization, customer, since, may_lie_ahead: false, marks, version, headroom, later: None }
    }
}

/// The customers whose figures are to be looked at. A mark is committed with what it is about, and dropped when somebody has
/// looked behind that commit: so nothing that reaches a threshold is missed, whoever dies in between.
pub trait AlertQueue: Send + Sync {
    /// Marked customers, of every organization at most `each` marks. Whoever is to be looked at again by now is marked first.
    fn list_marked(&self, each: u32) -> Result<Vec<MarkedCustomer>, Error>;
    /// Drops the marks that were looked at, once it is kept who is to be looked at again. Whoever has headroom need not be marked for
    /// events that are within it: a store may make nothing of that.
    fn drop_marks(&self, seen: &[MarkedCustomer]) -> Result<(), Error>;
    /// Marks whoever the alerts may concern that are new, `page` customers at a time; how many alerts that were.
    fn mark_concerned(&self, page: u32) -> Result<usize, Error>;
    /// Has `bell` called whenever a transaction of this process has marked customers. Only the first that is given is.
    fn on_marks(&self, bell: Box<dyn Fn() + Send + Sync>);
}
