//! Events, read by folding them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use time::OffsetDateTime;

use super::transaction::MemoryTransaction;
use crate::custom_sql::{CustomFailure, CustomUsageRequest};
use crate::error::Error;
use crate::event::Event;
use crate::id::CustomerKey;
use crate::store::{EventCursor, EventFilter, EventRepo, Page, PageRequest};
use crate::usage::fold_custom;
use crate::usage::{SeenUsage, UsageRequest, fold};

impl EventRepo for MemoryTransaction {
    fn seen_usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<SeenUsage>, Error> {
        let tenant = self.tenant()?;
        UsageRequest::refuse_custom(requests)?;
        let usage = |request: &UsageRequest| {
            let account = tenant.accounts.get(&request.customer);
            let events = account.into_iter().flat_map(|account| account.events.values());
            fold(request, events).seen_to(account.map_or(0, |account| account.last_arrival()))
        };
        Ok(requests.iter().map(usage).collect())
    }

    fn seen_custom_usages(
        &mut self,
        requests: &[CustomUsageRequest],
    ) -> Result<Vec<Result<SeenUsage, CustomFailure>>, Error> {
        let tenant = self.tenant()?;
        let usage = |request: &CustomUsageRequest| {
            let account = tenant.accounts.get(&request.customer);
            let events = account.into_iter().flat_map(|account| account.events.values());
            let last_arrival = account.map_or(0, |account| account.last_arrival());
            fold_custom(request, events).map(|usage| usage.seen_to(last_arrival))
        };
        Ok(requests.iter().map(usage).collect())
    }

    fn list(&mut self, filter: &EventFilter, page: &PageRequest) -> Result<Page<Event>, Error> {
        let after = page.after.as_deref().map(EventCursor::parse).transpose()?;
        let account = self.tenant()?.accounts.get(&filter.customer);
        let mut events: Vec<&Event> = account
            .into_iter()
            .flat_map(|account| account.events.values())
            .filter(|event| filter.name.as_ref().is_none_or(|name| event.name == *name))
            .filter(|event| filter.idempotency_id.as_ref().is_none_or(|id| event.idempotency_id == *id))
            .filter(|event| filter.from.is_none_or(|from| event.time_created >= from))
            .filter(|event| filter.to.is_none_or(|to| event.time_created < to))
            .filter(|event| after.as_ref().is_none_or(|after| EventCursor::of(event) < *after))
            .collect();
        events.sort_by_key(|event| Reverse(EventCursor::of(event)));
        let limit = page.limit as usize;
        let is_last = events.len() <= limit;
        events.truncate(limit);
        let next = events.last().filter(|_| !is_last).map(|event| EventCursor::of(event).to_text());
        Ok(Page { items: events.into_iter().cloned().collect(), next })
    }

    fn missing(
        &mut self,
        customer: Option<CustomerKey>,
        ids: &[String],
        since: OffsetDateTime,
    ) -> Result<Vec<String>, Error> {
        let accounts = self.tenant()?.accounts.iter().filter(|(key, _)| customer.is_none_or(|wanted| **key == wanted));
        let events = accounts.flat_map(|(_, account)| account.events.values());
        let known: BTreeSet<_> =
            events.filter(|event| event.time_created >= since).map(|event| event.idempotency_id.as_str()).collect();
        let mut reported = BTreeSet::new();
        let missing = ids.iter().filter(|id| !known.contains(id.as_str()) && reported.insert(id.as_str()));
        Ok(missing.cloned().collect())
    }
}
