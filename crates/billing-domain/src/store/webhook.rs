//! Webhook endpoints and what is sent to them.

use std::collections::BTreeMap;

use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{Page, PageRequest};
use crate::error::Error;
use crate::id::{MessageId, OrganizationId, WebhookEndpointId};
use crate::webhook::{DeliveryAttempt, PendingDelivery, WebhookEndpoint};

/// The organization's webhook endpoints.
pub trait WebhookRepo {
    /// Keeps a new endpoint.
    fn insert(&mut self, endpoint: &WebhookEndpoint) -> Result<(), Error>;
    /// The endpoint.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn get(&mut self, id: WebhookEndpointId) -> Result<WebhookEndpoint, Error>;
    /// All endpoints, oldest first.
    fn list(&mut self) -> Result<Vec<WebhookEndpoint>, Error>;
    /// Writes back everything but what deliveries change by themselves: position and how long it has failed. When it is enabled or disabled,
    /// those are written too, and nothing waits any more.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn update(&mut self, endpoint: &WebhookEndpoint) -> Result<(), Error>;
    /// Forgets the endpoint and what was sent to it.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn delete(&mut self, id: WebhookEndpointId) -> Result<(), Error>;
    /// What waits to be sent to the endpoint by `until`, the longest overdue first, of those by position; at most `limit`.
    fn list_pending(
        &mut self,
        id: WebhookEndpointId,
        until: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<PendingDelivery>, Error>;
    /// Has messages sent to the endpoint as these say, in place of what was said of them before.
    fn put_pending(&mut self, id: WebhookEndpointId, pending: &[PendingDelivery]) -> Result<(), Error>;
    /// Has everything sent again that was written since an instant of real time.
    fn rewind(&mut self, id: WebhookEndpointId, since: OffsetDateTime) -> Result<(), Error>;
    /// The attempts at an endpoint, newest first.
    fn list_attempts(
        &mut self,
        id: WebhookEndpointId,
        message: Option<MessageId>,
        page: &PageRequest,
    ) -> Result<Page<DeliveryAttempt>, Error>;
    /// The position of the last message in the feed.
    fn last_position(&mut self) -> Result<u64, Error>;
}

/// What a turn at an endpoint came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryRecord {
    /// Everything of the feed up to this position was sent, or is among what waits. A turn that began elsewhere does not move it.
    pub reached: Option<(u64, u64)>,
    /// How often the endpoint had been sent back when the turn was read. Nor does one behind which that was done once more.
    pub replays: u64,
    /// What was tried.
    pub attempts: Vec<DeliveryAttempt>,
    /// What need not be sent any more.
    pub settled: Vec<MessageId>,
    /// What is to be sent again.
    pub pending: Vec<PendingDelivery>,
    /// Since when every attempt has failed.
    pub failing_since: Option<OffsetDateTime>,
}

impl DeliveryRecord {
    /// Of a turn in which nothing was sent to an endpoint that has failed since then.
    pub fn new(failing_since: Option<OffsetDateTime>) -> Self {
        Self { failing_since, ..Self::default() }
    }
}

/// How an endpoint stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStanding {
    /// Whose.
    pub organization: OrganizationId,
    /// Which.
    pub endpoint: WebhookEndpointId,
    /// Messages that wait to be sent again.
    pub waiting: u64,
    /// Messages of the feed that come behind its position, wanted or not.
    pub behind: u64,
    /// When the oldest of all these was written, in real time; of one that is disabled nothing waits.
    pub oldest: Option<OffsetDateTime>,
    /// Since when every attempt has failed.
    pub failing_since: Option<OffsetDateTime>,
    /// Whether it is disabled.
    pub is_disabled: bool,
}

impl EndpointStanding {
    /// Of an organization's endpoint: so many messages wait, and come behind its position; the oldest of them, and since when it fails.
    pub fn new(
        (organization, endpoint): (OrganizationId, WebhookEndpointId),
        (waiting, behind): (u64, u64),
        (oldest, failing_since): (Option<OffsetDateTime>, Option<OffsetDateTime>),
        is_disabled: bool,
    ) -> Self {
        Self { organization, endpoint, waiting, behind, oldest, failing_since, is_disabled }
    }
}

/// Which endpoints are wanted, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The process that wants to serve them.
    pub owner: Uuid,
    /// Most endpoints.
    pub limit: u32,
    /// Most endpoints of one organization, unless `room_of` says how many of it.
    pub most_of_each: u32,
    /// Most endpoints of these organizations, of which some are served already.
    pub room_of: BTreeMap<OrganizationId, u32>,
    /// Those whose last attempt has failed, or those of which it has not.
    pub are_failing: bool,
    /// What is to be sent by then counts, and leases that ran out by then do not.
    pub now: OffsetDateTime,
    /// How long they are `owner`'s without being heard of.
    pub lease: Duration,
}

/// The endpoints of all organizations, as whoever delivers sees them.
pub trait Deliveries: Send + Sync {
    /// Leases enabled endpoints that have something to be sent; nobody else gets them meanwhile. Those that were served the longest ago
    /// come first.
    fn lease_endpoints(&self, wanted: &LeaseRequest) -> Result<Vec<(OrganizationId, WebhookEndpointId)>, Error>;
    /// Prolongs the leases of `owner` that run at `now` to `lease` from then.
    fn renew_leases(&self, owner: Uuid, now: OffsetDateTime, lease: Duration) -> Result<(), Error>;
    /// Ends a lease of `owner`.
    fn release_endpoint(
        &self,
        owner: Uuid,
        organization: OrganizationId,
        endpoint: WebhookEndpointId,
    ) -> Result<(), Error>;
    /// Keeps what a turn at an endpoint came to, if it is still leased to `owner`; the endpoint as it stands then, `None` where it is
    /// not leased.
    fn record_deliveries(
        &self,
        owner: Uuid,
        organization: OrganizationId,
        endpoint: WebhookEndpointId,
        record: &DeliveryRecord,
    ) -> Result<Option<WebhookEndpoint>, Error>;
    /// How the endpoints stand that are behind, failing or disabled: the longest failing first, then the furthest behind; at most `limit`.
    fn list_standings(&self, limit: u32) -> Result<Vec<EndpointStanding>, Error>;
    /// Drops attempts that were made before an instant, at most `limit`; how many.
    fn drop_attempts(&self, before: OffsetDateTime, limit: u32) -> Result<u64, Error>;
}
