//! Taking events in, and reading them.

use std::collections::BTreeMap;

use time::OffsetDateTime;
use uuid::Uuid;

use super::{Page, PageRequest};
#[cfg(feature = "service")]
use super::{Reply, Requester};
use crate::custom_sql::{CustomFailure, CustomUsageRequest};
use crate::error::{Error, FieldError};
use crate::event::{Event, EventCorrection, EventHistory, EventState, Ingested, KeptEvent};
use crate::id::{CustomerKey, JobId, OrganizationId};
use crate::invoice::{LineItem, Trace};
use crate::metric::{Metric, MetricType};
use crate::subscription::SubscriptionFilters;
use crate::usage::{SeenUsage, Usage, UsageRequest};

/// Which events are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    /// Whose.
    pub customer: CustomerKey,
    /// Only those of this name.
    pub name: Option<String>,
    /// Only the one with this id; it may be there once in every month.
    pub idempotency_id: Option<String>,
    /// Only what happened at this instant or later.
    pub from: Option<OffsetDateTime>,
    /// Only what happened before this instant.
    pub to: Option<OffsetDateTime>,
    /// Only those that have all of these properties.
    pub properties: Vec<SubscriptionFilters>,
    /// Only those of which this has become.
    pub state: Option<EventState>,
    /// Only those that count for all of these metrics.
    pub metrics: Vec<Metric>,
    /// The events with an arrival number up to this one alone, as they were then: what was corrected since is as it was before, and
    /// what counted for nothing is not there.
    pub seen_to: Option<u64>,
}

impl EventFilter {
    /// All events of a customer.
    pub fn of(customer: CustomerKey) -> Self {
        Self {
            customer,
            name: None,
            idempotency_id: None,
            from: None,
            to: None,
            properties: Vec::new(),
            state: None,
            metrics: Vec::new(),
            seen_to: None,
        }
    }

    /// The events that a usage line of the customer's stands on, as it saw them: those inside its window, as many as its trace says. A
    /// gauge brings its level along from events before, and a custom metric may look at them; they stand on the lines of their own
    /// time. `None` for a line that no event stands behind.
    pub fn of_line(customer: CustomerKey, line: &LineItem, metric: &Metric) -> Option<Self> {
        let Trace::UsageCharge { window, last_arrival, .. } = &line.trace else { return None };
        let is_custom = metric.measure.metric_type() == MetricType::Custom;
        Some(Self {
            name: (!is_custom).then(|| metric.event_name.clone()),
            from: Some(window.start()),
            to: Some(window.end()),
            properties: vec![line.filters.clone()],
            metrics: if is_custom { Vec::new() } else { vec![metric.clone()] },
            seen_to: Some(*last_arrival),
            ..Self::of(customer)
        })
    }

    /// Whether an event of the customer's is wanted, whoever has seen it.
    pub fn takes(&self, event: &Event) -> bool {
        self.name.as_ref().is_none_or(|name| event.name == *name)
            && self.idempotency_id.as_ref().is_none_or(|id| event.idempotency_id == *id)
            && self.from.is_none_or(|from| event.time_created >= from)
            && self.to.is_none_or(|to| event.time_created < to)
            && self.properties.iter().all(|filters| filters.matches(&event.properties))
            && self.metrics.iter().all(|metric| metric.counts(event))
    }
}

/// Behind which event a list of events goes on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventCursor {
    /// When it happened.
    pub time_created: OffsetDateTime,
    /// Its id.
    pub idempotency_id: String,
}

impl EventCursor {
    /// That of an event.
    pub fn of(event: &Event) -> Self {
        Self { time_created: event.time_created, idempotency_id: event.idempotency_id.clone() }
    }

    /// As text: whole microseconds and the id.
    pub fn to_text(&self) -> String {
        format!("{}_{}", self.time_created.unix_timestamp_nanos() / 1_000, self.idempotency_id)
    }

    /// Out of its text.
    ///
    /// # Errors
    /// A text that [`EventCursor::to_text`] never makes.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let read = || {
            let (microseconds, id) = text.split_once('_')?;
            let nanoseconds = microseconds.parse::<i64>().ok().map(|microseconds| i128::from(microseconds) * 1_000)?;
            let time_created = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).ok()?;
            Some(Self { time_created, idempotency_id: id.to_owned() })
        };
        read().ok_or_else(|| FieldError::bad_cursor().into())
    }
}

/// Behind which event a list of the events with one id goes on, whosever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedIdCursor {
    /// Whose.
    pub customer: CustomerKey,
    /// When it happened.
    pub time_created: OffsetDateTime,
}

impl SharedIdCursor {
    /// That of an event of an organization's.
    pub fn of(organization: OrganizationId, event: &Event) -> Self {
        Self { customer: CustomerKey::derive(organization, &event.customer), time_created: event.time_created }
    }

    /// As text: whole microseconds and the customer's key.
    pub fn to_text(self) -> String {
        format!("{}_{}", self.time_created.unix_timestamp_nanos() / 1_000, self.customer.uuid().simple())
    }

    /// Out of its text.
    ///
    /// # Errors
    /// A text that [`SharedIdCursor::to_text`] never makes.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let EventCursor { time_created, idempotency_id: key } = EventCursor::parse(text)?;
        let key = Uuid::try_parse(&key);
        let key = key.map_err(|_| FieldError::bad_cursor())?;
        Ok(Self { customer: key.into(), time_created })
    }
}

/// The organization's events, as far as they can be read.
pub trait EventRepo {
    /// The usage behind each request, all from one snapshot, in the order of the requests. Custom metrics are asked for by
    /// [`EventRepo::custom_usages`].
    fn usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<Usage>, Error> {
        Ok(self.seen_usages(requests)?.into_iter().map(|seen| seen.usage).collect())
    }
    /// [`EventRepo::usages`], each with how far into its customer's events the snapshot saw.
    fn seen_usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<SeenUsage>, Error>;
    #[cfg(feature = "service")]
    /// Remembers what it takes for a [`Question`](super::Question) about this usage to be answered together with others; changes no
    /// answer. A store that remembers nothing has nothing to do.
    fn warm_up(&mut self, requests: &[UsageRequest]) -> Result<(), Error> {
        let _ = requests;
        Ok(())
    }
    /// What each query makes of its customer's events, or why nothing, all from one snapshot, in the order of the
    /// requests. A query that fails is no error of the transaction.
    fn custom_usages(&mut self, requests: &[CustomUsageRequest]) -> Result<Vec<Result<Usage, CustomFailure>>, Error> {
        let usages = self.seen_custom_usages(requests)?.into_iter();
        Ok(usages.map(|seen| seen.map(|seen| seen.usage)).collect())
    }
    /// [`EventRepo::custom_usages`], each with how far into its customer's events the snapshot saw.
    fn seen_custom_usages(
        &mut self,
        requests: &[CustomUsageRequest],
    ) -> Result<Vec<Result<SeenUsage, CustomFailure>>, Error>;
    /// A customer's events, newest first; at one instant the greatest id, by its bytes, comes first. The cursor of a
    /// page is an [`EventCursor`]. A page may be shorter than its limit, even empty, before the end: a store looks at so many events at
    /// once and no more.
    fn list(&mut self, filter: &EventFilter, page: &PageRequest) -> Result<Page<KeptEvent>, Error>;
    /// The events with this id, whosever they are, in the order of their customers' keys and then of time. The cursor of a page is a
    /// [`SharedIdCursor`].
    fn list_with_id(&mut self, idempotency_id: &str, page: &PageRequest) -> Result<Page<KeptEvent>, Error>;
    /// A customer's events with one of `ids`, in any order; an id may be there once in every month.
    fn find(&mut self, customer: CustomerKey, ids: &[String]) -> Result<Vec<KeptEvent>, Error>;
    /// Corrects events of one customer, each as it is now and at most once, and keeps the corrections. Usage, and all that is
    /// remembered of it, is of the events as they are then; what was seen of the customer's events before can still be told.
    ///
    /// # Errors
    /// [`StoreError::Internal`](crate::StoreError::Internal) when an event is not there as the correction has it.
    fn correct(&mut self, customer: CustomerKey, corrections: &[EventCorrection]) -> Result<(), Error>;
    /// All that is kept of a customer's events with this id, the one that happened last first; an id may be there once in every month.
    fn histories(&mut self, customer: CustomerKey, idempotency_id: &str) -> Result<Vec<EventHistory>, Error>;
    /// How many events each of these jobs has corrected; one that has corrected none is left out.
    fn count_corrections(&mut self, jobs: &[JobId]) -> Result<BTreeMap<JobId, u64>, Error>;
    /// The corrections of a customer's events with this id, oldest first.
    fn list_corrections(&mut self, customer: CustomerKey, idempotency_id: &str) -> Result<Vec<EventCorrection>, Error>;
    /// When the first of a customer's events happens that counts and is dated after `instant`.
    fn next_after(&mut self, customer: CustomerKey, instant: OffsetDateTime) -> Result<Option<OffsetDateTime>, Error>;
    /// Those of `ids` for which no event dated at or after `since` is stored, in the order given, each once.
    fn missing(
        &mut self,
        customer: Option<CustomerKey>,
        ids: &[String],
        since: OffsetDateTime,
    ) -> Result<Vec<String>, Error>;
}

/// Which events are taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// From the organization's window back to one day ahead of the customer's now.
    Enforced,
    /// Any: for back-filling.
    Open,
}

/// Takes events in.
pub trait EventIngest: Send + Sync {
    /// Stores and counts each event once, durably when this returns; answers in the order of `events`.
    ///
    /// An event whose id the customer has used before (in the same month, or in another that the acceptance
    /// window touches) is a duplicate, also inside one call: the first one counts.
    ///
    /// # Errors
    /// [`Error::Store`]: some of the events may have been stored, so that a retry finds duplicates.
    fn ingest(&self, organization: OrganizationId, events: &[Event], window: Window) -> Result<Vec<Ingested>, Error>;

    #[cfg(feature = "service")]
    /// [`EventIngest::ingest`] without blocking, together with the events of others who come at the same time.
    ///
    /// # Errors
    /// In the reply, as [`EventIngest::ingest`]; [`StoreError::Overloaded`](crate::StoreError::Overloaded) when too much
    /// waits already: nothing was stored; [`Refusal::InvalidKey`](crate::Refusal::InvalidKey) when the requester's key is not
    /// valid any more: nothing was stored after that.
    fn ingest_then(&self, requester: Requester, events: Vec<Event>, window: Window, reply: Reply<Vec<Ingested>>);

    #[cfg(feature = "service")]
    /// Prepares, for a metric or for filters that are younger than their events, some more of what came before, so that
    /// it is read as fast as what came after. Usage is the same without; a store that prepares nothing has nothing to
    /// do. Answers whether there is more.
    ///
    /// # Errors
    /// [`Error::Store`]; the next call goes on where this one ended.
    fn catch_up(&self) -> Result<bool, Error> {
        Ok(false)
    }
}
